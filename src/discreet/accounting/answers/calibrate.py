"""The noise that a budget needs, found on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from discreet.accounting.account import Method, guarantee
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee

TOLERANCE = 1e-4
"""Relative precision of a calibrated noise multiplier."""

_SMALLEST, _LARGEST = 1e-2, 1e6


def calibrate_noise(
    event: Callable[[float], Event],
    epsilon: float,
    delta: float,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    method: Method = Method.PLD,
    *,
    margin: float = 1.0,
) -> tuple[float, Guarantee]:
    """The smallest noise multiplier, within `TOLERANCE`, whose guarantee is at most `epsilon`, and that guarantee.

    With a `margin` above 1 it is at most epsilon / margin. `event` maps a noise multiplier to the event that will be
    released. The guarantee returned was evaluated at the multiplier returned, so the budget is met whatever the search
    did. `InputError` if the budget is out of reach.
    """
    asked = checks.positive("epsilon", epsilon)
    epsilon = asked / margin
    delta = checks.open_unit("delta", delta)

    def spend(noise: float) -> Guarantee:
        return guarantee(event(noise), delta, adjacency, method)

    left, right, noise, met = _bracket(spend, epsilon, asked)
    points = [left, right]
    while right[0] - left[0] > TOLERANCE:
        guess = _next_guess(left, right, points)
        found = spend(math.exp(guess))
        points.append((guess, _log_ratio(found.epsilon, epsilon)))
        if found.epsilon <= epsilon:
            noise, met, right = math.exp(guess), found, points[-1]
        else:
            left = points[-1]
    return noise, met


Point = tuple[float, float]
"""(log of the noise multiplier, log of epsilon / budget)."""


def _bracket(
    spend: Callable[[float], Guarantee], epsilon: float, asked: float
) -> tuple[Point, Point, float, Guarantee]:
    """A point over the budget, one within it at twice the noise, and the latter's noise multiplier and guarantee.

    `asked`: the epsilon that errors name.
    """
    noise = 1.0
    found = less = spend(noise)
    while found.epsilon > epsilon:
        noise *= 2
        if noise > _LARGEST:
            raise InputError(
                f"no noise multiplier up to {_LARGEST:g} meets epsilon {asked:g}; "
                "raise epsilon or delta, or take fewer steps or a lower sampling rate"
            )
        less, found = found, spend(noise)
    while less.epsilon <= epsilon:
        if noise <= _SMALLEST:
            raise InputError(
                f"epsilon {asked:g} is met with a noise multiplier below {_SMALLEST:g}, where noise no longer "
                "protects; lower epsilon"
            )
        if less is not found:
            noise, found = noise / 2, less
        less = spend(noise / 2)
    left, right = math.log(noise / 2), math.log(noise)
    return (left, _log_ratio(less.epsilon, epsilon)), (right, _log_ratio(found.epsilon, epsilon)), noise, found


def _next_guess(left: Point, right: Point, points: list[Point]) -> float:
    """The log noise at which log epsilon is expected to meet the budget, moved a little to the safe side.

    This is the secant through the last two points, or the middle of the bracket if the secant leaves it.
    """
    (x0, y0), (x1, y1) = points[-2:]
    middle = 0.5 * (left[0] + right[0])
    guess = x1 - y1 * (x1 - x0) / (y1 - y0) if y0 != y1 and math.isfinite(y0) and math.isfinite(y1) else middle
    if not left[0] < guess < right[0]:
        guess = middle
    lean = 0.4 * TOLERANCE if guess - left[0] > right[0] - guess or len(points) > 3 else 0.0
    return min(max(guess + lean, left[0] + 0.45 * TOLERANCE), right[0] - 0.45 * TOLERANCE)


def _log_ratio(spent: float, epsilon: float) -> float:
    return math.log(spent / epsilon) if 0 < spent < math.inf else math.inf
