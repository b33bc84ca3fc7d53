"""Further questions about a fixed plan: delta at an epsilon, and epsilon for groups of units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.account import Method, account, parse
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.answers.tradeoff import GaussianTradeOff
from discreet.accounting.bisection import bisect
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import NotProved
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee

_EXACT = (Method.PLD, Method.GDP)
_SMALLEST = 1e-180
_FOCUSES = (1.0, 2.0, 3.5, 6.0, 10.0)
"""Powers of delta to focus profiles on: a group's delta grows from far smaller deltas of one unit."""


@dataclass(frozen=True, slots=True)
class DeltaAt:
    """delta at an epsilon: `delta` is an upper bound if `kind` is guarantee; `lower` is a lower bound, if known."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    method: str
    kind: str
    lower: float | None = None


def delta_at(
    event: Event, epsilon: float, adjacency: Adjacency = Adjacency.ADD_REMOVE, method: Method = Method.PLD
) -> DeltaAt:
    """The delta of `method` at a chosen epsilon of at least 0; 1 if nothing is proved.

    | method          | how                                                                            |
    |-----------------|--------------------------------------------------------------------------------|
    | pld, gdp        | the profile itself; a closed form without sampling                             |
    | all others      | the smallest delta, to 0.1 %, at which their epsilon is at most `epsilon`      |
    """
    epsilon = checks.nonnegative("epsilon", epsilon)
    adjacency, method = parse(Adjacency, "adjacency", adjacency), parse(Method, "method", method)
    if method not in _EXACT:
        return _inverted(event, epsilon, adjacency, method)
    if method is Method.GDP:
        account(event, 0.5, adjacency, method)  # refuses what the theory does not cover
    upper = _near(event, epsilon, adjacency)
    lower, at = 0.0, np.array([epsilon])
    for _ in range(3):
        focus = min(max(upper, _SMALLEST), 0.1)
        curve = trade_off(event, adjacency, focus)
        upper = min(upper, float(curve.delta(at)[0]))
        lower = min(upper, max(lower, float(curve.delta_lower(at)[0])))
        if isinstance(curve, GaussianTradeOff) or upper > 0.03 * focus or lower > 0.995 * upper:
            break
    name = "gaussian" if isinstance(curve, GaussianTradeOff) else method.value
    return DeltaAt(epsilon, upper, adjacency, name, "guarantee", lower)


def _near(event: Event, epsilon: float, adjacency: Adjacency) -> float:
    """A proved upper bound on delta, near the profile's; by `advanced` where releases have no Rényi bound."""
    try:
        return _inverted(event, epsilon, adjacency, Method.RDP).delta
    except NotProved:
        return _inverted(event, epsilon, adjacency, Method.ADVANCED).delta


def group_guarantee(
    event: Event,
    size: int,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    method: Method = Method.PLD,
) -> Guarantee:
    """The guarantee for any `size` units together, such as the rows of one person.

    Without sampling the guarantee is exact: k units have k times the mu (pld, gdp). With sampling it follows from the
    trade-off function of one unit (Dong, Roth, Su 2022, Theorem 2.14), which holds however the k units take part; it is
    not the least possible and has no lower bound. `NotProved` for other methods.
    """
    delta = checks.open_unit("delta", delta)
    size = checks.count("group", size)
    adjacency, method = parse(Adjacency, "adjacency", adjacency), parse(Method, "method", method)
    if method not in _EXACT:
        raise NotProved(f"groups are accounted for by method pld (or gdp without sampling), not {method.value}")
    if size == 1:
        found = account(event, delta, adjacency, method)
        assert isinstance(found, Guarantee)
        return found
    if method is Method.GDP:
        account(event, delta, adjacency, method)
    best = math.inf
    for power in _FOCUSES:
        curve = trade_off(event, adjacency, min(0.3, max(_SMALLEST, delta**power))).group(size)
        epsilon = curve.epsilon(delta)
        if isinstance(curve, GaussianTradeOff):
            return Guarantee(epsilon, delta, adjacency, "gaussian")
        improved = epsilon < 0.998 * best
        best = min(best, epsilon)
        if not improved and math.isfinite(best):
            break
    return Guarantee(best, delta, adjacency, method.value)


def _inverted(event: Event, epsilon: float, adjacency: Adjacency, method: Method) -> DeltaAt:
    """The smallest delta, by bisection of log delta, at which the method's epsilon is at most `epsilon`."""

    def says(delta: float) -> float:
        return account(event, delta, adjacency, method).epsilon

    kind = account(event, 0.5, adjacency, method).kind
    low, high = math.log(_SMALLEST), math.log(1 - 1e-12)
    if says(math.exp(low)) <= epsilon:
        return DeltaAt(epsilon, math.exp(low), adjacency, method.value, kind)
    if not says(math.exp(high)) <= epsilon:
        return DeltaAt(epsilon, 1.0, adjacency, method.value, kind)
    _, high = bisect(lambda log: says(math.exp(log)) <= epsilon, low, high, absolute=1e-3)
    return DeltaAt(epsilon, math.exp(high), adjacency, method.value, kind)
