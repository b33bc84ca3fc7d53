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
) -> tuple[float, Guarantee]:
    """The smallest noise multiplier, within `TOLERANCE`, whose guarantee is at most `epsilon`, and that guarantee.

    `event` maps a noise multiplier to what will be released. The returned guarantee was evaluated at the
    returned multiplier, so the budget is met whatever the search did. A budget out of reach is an `InputError`.
    """
    checks.positive("epsilon", epsilon)
    checks.open_unit("delta", delta)

    def spend(noise: float) -> Guarantee:
        return guarantee(event(noise), delta, adjacency, method)

    low, high, met = _bracket(spend, epsilon)
    log_low, log_high = math.log(low), math.log(high)
    excess_low, excess_high = _log_ratio(spend(low).epsilon, epsilon), _log_ratio(met.epsilon, epsilon)
    while log_high - log_low > TOLERANCE:
        middle = _next_guess(log_low, log_high, excess_low, excess_high)
        found = spend(math.exp(middle))
        if found.epsilon <= epsilon:
            high, log_high, met = math.exp(middle), middle, found
            excess_high = _log_ratio(found.epsilon, epsilon)
        else:
            log_low, excess_low = middle, _log_ratio(found.epsilon, epsilon)
    return high, met


def _bracket(spend: Callable[[float], Guarantee], epsilon: float) -> tuple[float, float, Guarantee]:
    """Noise multipliers a factor 2 apart (or the range's end), the first over the budget, the second within it."""
    noise = 1.0
    found = spend(noise)
    while found.epsilon > epsilon:
        noise *= 2
        if noise > _LARGEST:
            raise InputError(
                f"no noise multiplier up to {_LARGEST:g} meets epsilon {epsilon:g}; "
                "raise epsilon or delta, or take fewer steps or a lower sampling rate"
            )
        found = spend(noise)
    while noise > _SMALLEST:
        less = spend(noise / 2)
        if less.epsilon > epsilon:
            return noise / 2, noise, found
        noise, found = noise / 2, less
    raise InputError(
        f"epsilon {epsilon:g} is met with a noise multiplier below {_SMALLEST:g}, where noise no longer protects; "
        "lower epsilon"
    )


def _next_guess(low: float, high: float, excess_low: float, excess_high: float) -> float:
    """Regula falsi on log epsilon against log noise, kept inside, and leaning to the end that is safe."""
    width = high - low
    if math.isfinite(excess_low) and math.isfinite(excess_high) and excess_low > excess_high:
        guess = low + width * excess_low / (excess_low - excess_high) + 0.4 * TOLERANCE
    else:
        guess = low + 0.5 * width
    return min(max(guess, low + 0.45 * TOLERANCE), high - 0.45 * TOLERANCE)


def _log_ratio(spent: float, epsilon: float) -> float:
    return math.log(spent / epsilon) if 0 < spent < math.inf else math.inf
