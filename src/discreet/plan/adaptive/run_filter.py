"""The privacy filter of an adaptive run: its kinds, and one made for a budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator

from discreet.accounting.adaptive import filter_fit, filters
from discreet.accounting.adaptive.filters import GaussianFilter, RdpCurveFilter, RdpOrderFilter, ZcdpFilter
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.core.rounding import CONFIRMABLE

FILTER_KINDS = (RdpCurveFilter.kind, RdpOrderFilter.kind, ZcdpFilter.kind, GaussianFilter.kind)


StepFilter = RdpOrderFilter | RdpCurveFilter | ZcdpFilter | GaussianFilter
"""Filters that charge single steps, not whole runs."""


def _decoded(value: object) -> StepFilter:
    found = filters.from_dict(value) if isinstance(value, Mapping) else value
    if not isinstance(found, StepFilter):
        raise InputError(f"filter must be one over steps ({', '.join(FILTER_KINDS)}), got {value!r:.80}")
    return found


RunFilter = Annotated[
    StepFilter,
    PlainValidator(_decoded),
    PlainSerializer(filters.as_dict),
]


def loosened(budget: StepFilter) -> StepFilter:
    """The filter with limits larger by `CONFIRMABLE`."""
    if isinstance(budget, RdpOrderFilter):
        return replace(budget, limit=budget.limit * CONFIRMABLE)
    if isinstance(budget, RdpCurveFilter):
        return replace(budget, limits=tuple(limit * CONFIRMABLE for limit in budget.limits))
    if isinstance(budget, ZcdpFilter):
        return replace(budget, rho=budget.rho * CONFIRMABLE)
    return replace(budget, mu_squared=budget.mu_squared * CONFIRMABLE)


def for_budget(kind: str, course: Event, epsilon: float, delta: float, adjacency: Adjacency) -> StepFilter:
    """The filter of this kind that lasts longest on the expected events `course`, within (epsilon, delta)."""
    within = epsilon / CONFIRMABLE
    for _ in range(40):
        made = _chosen(kind, course, within, delta, adjacency)
        if loosened(made).guarantee().epsilon <= epsilon:
            return made
        within *= 1 - 1e-4
    raise InputError(f"no {kind} filter meets epsilon {epsilon:g}; raise epsilon or delta")


def _chosen(kind: str, course: Event, epsilon: float, delta: float, adjacency: Adjacency) -> StepFilter:
    match kind:
        case RdpCurveFilter.kind:
            return filter_fit.curve_filter(course, epsilon, delta, adjacency)
        case RdpOrderFilter.kind:
            return filter_fit.order_filter(course, epsilon, delta, adjacency)
        case ZcdpFilter.kind:
            return filter_fit.zcdp_filter(epsilon, delta, adjacency)
        case GaussianFilter.kind:
            return filter_fit.gaussian_filter(epsilon, delta, adjacency)
    raise InputError(f"unknown filter {kind!r} for a run; known: {', '.join(FILTER_KINDS)}")
