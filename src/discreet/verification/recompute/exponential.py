"""Choices by the exponential mechanism among the events of a certificate, and their price in zCDP.

A choice whose privacy loss stays in an interval of length e costs e^2 / 8: for P and Q with log(P / Q) in [t - e, t],
Hoeffding's lemma bounds the divergence at any order a by a e^2 / 8 (Cesar and Rogers 2021, lemma 3.2; Dong, Durfee and
Rogers 2020). A replaced unit is one that is removed and one that is added: a loss, or a clipped sum, then has twice the
range. Written from the theorem, without the trainer's code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from discreet.core.errors import InputError
from discreet.verification.recompute.events import MAX_COUNT, MAX_DEPTH, positive

_FIELDS = {"event", "epsilon", "query"}
_RATIO = {"loss": 2.0, "clipped_sum": 2.0, "count": 1.0}


def apart(events: Any, adjacency: object) -> tuple[list[Any], float]:
    """(all events but the choices, in order, and rho of the choices, rounded up)."""
    rest: list[Any] = []
    rhos: list[float] = []
    for leaf, count in _leaves(events, 1, 0):
        if leaf.get("event") == "bounded_range":
            rhos.append(count * _rho(leaf, adjacency))
        else:
            rest.append({"event": "repeat", "count": count, "of": leaf})
    return rest, math.fsum(rhos) * (1 + 2.0**-40)


def _leaves(event: Any, times: int, depth: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    """The events inside compositions and repetitions, each with how often it happened."""
    if depth > MAX_DEPTH:
        raise InputError(f"events are nested more than {MAX_DEPTH} deep")
    if isinstance(event, list):
        event = {"event": "compose", "of": event}
    if not isinstance(event, Mapping):
        raise InputError(f"event {str(event)[:80]!r} cannot be recomputed")
    match event:
        case {"event": "compose", "of": list(members), **more} if not more:
            for member in members:
                yield from _leaves(member, times, depth + 1)
        case {"event": "repeat", "count": int(count), "of": inner, **more} if not more and not isinstance(count, bool):
            if not (count >= 1 and times * count <= MAX_COUNT):
                raise InputError(f"count must be a whole number from 1 to {MAX_COUNT} in all")
            yield from _leaves(inner, times * count, depth + 1)
        case {"event": "compose" | "repeat"}:
            raise InputError("a composition needs a list in 'of', a repetition a count, and neither anything else")
        case _:
            yield event, times


def _rho(choice: Mapping[str, Any], adjacency: object) -> float:
    if set(choice) != _FIELDS or choice["query"] not in _RATIO:
        raise InputError(f"a choice needs exactly the fields {sorted(_FIELDS)}, and a query of {', '.join(_RATIO)}")
    span = positive("epsilon", choice["epsilon"]) * (_RATIO[choice["query"]] if adjacency == "replace_one" else 1.0)
    return span * span / 8
