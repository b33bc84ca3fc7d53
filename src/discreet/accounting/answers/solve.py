"""What a limit allows: the least noise, the most steps, or the largest sampling rate.

The limit may be on epsilon, on the mu of a Gaussian curve that covers the plan, or on what an attack can do. Each
answer was evaluated at the value returned, so the limit is met whatever the search did.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from discreet.accounting.account import Method, guarantee
from discreet.accounting.answers import attack_risk
from discreet.accounting.answers.covering_mu import covering_mu
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event

TOLERANCE = 1e-4
"""Relative precision of an answer. Numbers of steps below 10,000 are exact."""

_NOISES = (1e-2, 1e6)
_RATES = (1e-12, 1.0)
_MOST_STEPS = 1e12

Measure = Callable[[Event], float]
"""A proved upper bound on what a plan gives away: smaller is more private, infinite if nothing is proved."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The `value` found, the measure `spent` at it, and the number of plans that were accounted for."""

    value: float
    spent: float
    evaluations: int


def epsilon_of(delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE, method: Method = Method.PLD) -> Measure:
    """Epsilon at `delta`."""
    delta = checks.open_unit("delta", delta)
    return lambda event: guarantee(event, delta, adjacency, method).epsilon


def mu_of(slack: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Measure:
    """The mu with f >= G_mu - slack everywhere (`covering_mu`); exact without sampling at slack 0."""
    if slack != 0:
        slack = checks.open_unit("delta", slack)
    return lambda event: covering_mu(trade_off(event, adjacency), slack)


def true_positives_of(false_positive_rate: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Measure:
    """The largest true positive rate of an attack with this false positive rate, from the trade-off function."""
    false_positive_rate = checks.open_unit("false_positive_rate", false_positive_rate)
    return lambda event: attack_risk.from_event(event, adjacency).true_positive_rate(false_positive_rate)


def advantage_of(adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Measure:
    """The largest difference between true and false positive rates of any attack."""
    return lambda event: attack_risk.from_event(event, adjacency).advantage


def noise_for(event: Callable[[float], Event], measure: Measure, limit: float) -> Solution:
    """The smallest noise multiplier that keeps `measure` at most `limit`; `event` maps a multiplier to an event."""
    least, most = _NOISES
    found = _largest(lambda x: measure(event(1 / x)), limit, 1.0, (1 / most, 1 / least))
    if found is None:
        raise InputError(
            f"no noise multiplier up to {most:g} meets the limit {limit:g}; "
            "raise the limit, or take fewer steps or a lower sampling rate"
        )
    if found.value * least >= 1:
        raise InputError(f"the limit {limit:g} is met with noise below {least:g}, where noise no longer protects")
    return Solution(1 / found.value, found.spent, found.evaluations)


def steps_for(event: Callable[[int], Event], measure: Measure, limit: float) -> Solution:
    """The largest number of steps that keeps `measure` at most `limit`."""
    found = _largest(lambda x: measure(event(round(x))), limit, 128, (1, _MOST_STEPS), whole=True)
    if found is None:
        raise InputError(f"not even one step meets the limit {limit:g}; raise it or the noise, or sample less")
    if found.value >= _MOST_STEPS:
        raise InputError(f"the limit {limit:g} lasts for more than {_MOST_STEPS:g} steps; lower it or the noise")
    return Solution(int(found.value), found.spent, found.evaluations)


def rate_for(event: Callable[[float], Event], measure: Measure, limit: float) -> Solution:
    """The largest sampling rate that keeps `measure` at most `limit`; 1 if no sampling is needed."""
    found = _largest(lambda x: measure(event(x)), limit, 1 / 128, _RATES)
    if found is None:
        raise InputError(f"no sampling rate down to {_RATES[0]:g} meets the limit {limit:g}; raise it or the noise")
    return found


def fits_epsilon(event: Event, epsilon: float, delta: float, adjacency: Adjacency, method: Method) -> bool:
    """Whether a plan keeps to (epsilon, delta); the exact bound is computed only if a rough one cannot tell."""
    rough = guarantee(event, delta, adjacency, method, lambda found: 0.05 * found)
    if rough.epsilon <= epsilon or (rough.lower or 0.0) > epsilon:
        return rough.epsilon <= epsilon
    return guarantee(event, delta, adjacency, method).epsilon <= epsilon


Point = tuple[float, float]
"""(log of the number, log of spent / limit)."""


class _Counted:
    """Evaluates what is spent at a number, once for each number, and counts the evaluations."""

    def __init__(self, spend: Callable[[float], float], limit: float) -> None:
        self.spend, self.limit = spend, checks.positive("limit", limit)
        self.seen: dict[float, float] = {}

    def point(self, x: float) -> Point:
        if x not in self.seen:
            self.seen[x] = self.spend(x)
        spent = self.seen[x]
        ratio = spent / self.limit if spent > 0 else 1e-300
        return math.log(x), 50.0 if not ratio < math.exp(50) else math.log(ratio)


def _largest(
    spend: Callable[[float], float], limit: float, start: float, ends: tuple[float, float], *, whole: bool = False
) -> Solution | None:
    """The largest x within `ends` that spends at most `limit`, for a rising `spend`; None if there is none."""
    counted = _Counted(spend, limit)
    left, right = _bracket(counted, start, ends)
    if left is None:
        return None
    moved = 0
    while right is not None and not _near(left, right, whole):
        width = right[0] - left[0]
        guess = left[0] - left[1] * width / (right[1] - left[1])
        guess += 0.05 * width * moved  # past the root, so that the end that did not move last time moves now
        guess = min(max(guess, left[0] + 0.02 * width), right[0] - 0.02 * width)
        x = math.exp(guess)
        if whole:
            x = min(max(round(x), round(math.exp(left[0])) + 1), round(math.exp(right[0])) - 1)
        found = counted.point(x)
        within = found[1] <= 0
        left, right = (found, right) if within else (left, found)
        moved = 1 if within else -1
    value = max(x for x, spent in counted.seen.items() if spent <= limit and math.log(x) <= left[0] + 1e-12)
    return Solution(value, counted.seen[value], len(counted.seen))


def _bracket(counted: _Counted, start: float, ends: tuple[float, float]) -> tuple[Point | None, Point | None]:
    """(a point within the limit, a point beyond it); None for a point that does not exist between the ends."""
    x, here = start, counted.point(start)
    rises = here[1] <= 0
    factor = 2.0
    while True:
        other = min(x * factor, ends[1]) if rises else max(x / factor, ends[0])
        if other == x:
            return (here, None) if rises else (None, here)
        there = counted.point(other)
        if (there[1] <= 0) != rises:
            return (here, there) if rises else (there, here)
        x, here, factor = other, there, min(factor * factor, 256.0)


def _near(left: Point, right: Point, whole: bool) -> bool:
    low, high = math.exp(left[0]), math.exp(right[0])
    return right[0] - left[0] <= TOLERANCE or (whole and round(high) - round(low) <= 1)
