"""Queries that a run answers before its first step, on the same data; the steps depend on the answers (components,
scales).

They are events of the plan: fixed with it before any is answered, and charged by the run itself. So the plan's
guarantee, or the filter of an adaptive run, covers everything together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from discreet.accounting.adaptive.filters import ZcdpFilter
from discreet.core.adjacency import Query, Unit
from discreet.core.errors import InputError, kind_of
from discreet.core.events import (
    BoundedRange,
    Event,
    Gaussian,
    Laplace,
    NoisyMax,
    Poisson,
    Selection,
    SparseHistogram,
    flatten,
)
from discreet.core.events.event_json import from_json, to_json
from discreet.plan.clip_rules import ClipRule

_MOST = 1000

Answered = Gaussian | Laplace | BoundedRange | NoisyMax | SparseHistogram | Selection | Poisson
"""The events of queries; each is one charge."""


def as_before(given: object) -> tuple[Event, ...]:
    """The single events, in order; a `Compose` of several queries on all rows is taken apart."""
    if isinstance(given, str | Mapping | Event) or not isinstance(given, Iterable):
        raise InputError(f"before is a list of events, got {given!r:.80}")
    found: list[Event] = []
    for one in given:
        if not isinstance(one, Mapping | Event):
            raise InputError(f"before lists events, as discreet.queries.joint_event says them, got {kind_of(one)}")
        for part, count in flatten(from_json(dict(one)) if isinstance(one, Mapping) else one):
            if not isinstance(part, Answered):
                raise InputError(f"before a run there are queries; {type(part).__name__} is a batch of steps")
            if len(found) + count > _MOST:
                raise InputError(f"at most {_MOST} queries may come before the first step")
            found.extend([part] * count)
    return tuple(found)


def _encoded(before: tuple[Event, ...]) -> list[dict[str, object]]:
    return [to_json(event) for event in before]


Before = Annotated[tuple[Event, ...], PlainValidator(as_before), PlainSerializer(_encoded)]


def check_before(before: tuple[Event, ...], unit: Unit, clipping: ClipRule, filter_kind: str | None = None) -> None:
    """Refuse queries that do not fit the run, or whose cost a verifier could not recompute.

    `filter_kind`: the filter of an adaptive plan. A verifier recomputes choices only under zCDP.
    """
    if not before:
        return
    if unit is not Unit.EXAMPLE:
        raise InputError("queries protect single rows, and the plan protects users; leave out before")
    for event in before:
        if not _is_gaussian(event) and not (isinstance(event, BoundedRange) and filter_kind == ZcdpFilter.kind):
            what = type(event.event if isinstance(event, Poisson) else event).__name__
            raise InputError(
                f"before: no verifier recomputes what {what} costs together with these steps; ask sums, counts and "
                "histograms, which have Gaussian noise, or answer it from an Account, as a charge of its own"
            )
    sums = [event for event in before if isinstance(event, Gaussian) and event.query is Query.CLIPPED_SUM]
    if sums and clipping.FOLLOWS:
        raise InputError("adaptive clipping relates its noise to clipped sums; bound them otherwise, or buy no sum")


def _is_gaussian(event: Event) -> bool:
    """Whether all noise of a query is Gaussian: a single query on all rows, or several on one Poisson draw."""
    if isinstance(event, SparseHistogram):
        return True
    inside = event.event if isinstance(event, Poisson) else event
    return all(isinstance(part, Gaussian) for part, _ in flatten(inside))
