"""The number of coins that are guessed: fixed before a score is seen, or several numbers that pay for each other.

The best of several numbers, found on the scores it is used for, errs far more often than it states (a test shows 16 %
where 5 % are stated). So there are two honest ways.

- `planned`: the number that is best for the count to be expected of the plan's own curve. It depends on the plan and
  the number of canaries alone.
- A grid (`corrected`): each of n numbers has a share 1 / n of the failure probability (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from discreet.audit.bounds.curve_lines import Lines
from discreet.core.errors import InputError

_SHARES = tuple(0.82**step for step in range(26))
"""Shares of the canaries that are tried."""


def candidates(canaries: int) -> list[int]:
    """Even numbers of guesses that are worth trying, ascending."""
    return sorted({min(canaries, max(2, 2 * round(canaries * share / 2))) for share in _SHARES})


def expected_right(lines: Lines, guesses: int, canaries: int) -> int:
    """Right guesses to be expected, rounded down, if the run gives away all that its curve allows."""
    return int(canaries * float(lines.most_right(np.array([guesses / canaries]))[0]))


def planned(claimed: Lines, canaries: int, bound: Callable[[int, int], float]) -> int:
    """The number of guesses whose expected count has the largest `bound`(right, guesses); of equal ones the largest."""
    tried = candidates(canaries)
    return max(tried, key=lambda guesses: (bound(expected_right(claimed, guesses, canaries), guesses), guesses))


def corrected(values: Sequence[float]) -> float:
    """The p-value of the best of several (Bonferroni)."""
    if not values:
        raise InputError("at least one number of guesses is needed")
    return min(1.0, len(values) * min(values))
