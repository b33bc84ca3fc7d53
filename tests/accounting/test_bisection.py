"""Bisection: each end stays on its side, and both come as close as was asked."""

import math
from collections.abc import Callable

import pytest

from discreet.accounting.bisection import bisect

ROOT = 0.1234567


def beyond(x: float) -> bool:
    return x >= ROOT


@pytest.mark.parametrize("geometric", [False, True])
def test_ends_stay_on_their_sides(geometric: bool) -> None:
    low, high = bisect(beyond, 1e-9, 1e3, relative=1e-10, geometric=geometric)
    assert low < ROOT <= high
    assert high - low <= 1e-10 * high


def test_what_is_monotone_but_for_rounding_is_seen_at_both_ends() -> None:
    """Where the answer changes more than once, what is returned was still evaluated, on its side."""

    def noisy(x: float) -> bool:
        return math.sin(1e9 * x) > 0 if abs(x - ROOT) < 1e-6 else beyond(x)

    low, high = bisect(noisy, 0.0, 1.0, absolute=1e-12)
    assert not noisy(low)
    assert noisy(high)


@pytest.mark.parametrize("holds", [beyond, lambda x: x > 0, lambda x: x >= 1.0])
def test_without_a_precision_the_ends_become_neighbours(holds: Callable[[float], bool]) -> None:
    low, high = bisect(holds, 0.0, 1.0)
    assert math.nextafter(low, 1.0) == high
    assert (holds(low), holds(high)) == (False, True)


def test_a_geometric_middle_finds_the_size_first() -> None:
    calls: list[float] = []
    bisect(lambda x: bool(calls.append(x)) or x >= 1e-6, 1e-12, 1e12, relative=1e-4, geometric=True)
    assert len(calls) < 25
