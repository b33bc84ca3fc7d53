"""The largest batch that the float slack covers: exceeded with probability at most `OVERFLOW`, in many digits."""

import math

import mpmath
import pytest

from discreet.sampling import OVERFLOW, ROOM, largest_batch


def tail(rows: int, rate: float, most: int) -> mpmath.mpf:
    """P(Binomial(rows, rate) > most), bounded by its first term and the ratio of the terms after it."""
    with mpmath.workdps(50):
        p, k = mpmath.mpf(rate), most + 1
        first = mpmath.binomial(rows, k) * p**k * (1 - p) ** (rows - k)
        ratio = mpmath.mpf(rows - k) / (k + 1) * p / (1 - p)
        assert ratio < 1
        return first / (1 - ratio)


@pytest.mark.parametrize(
    ("rate", "population"), [(0.25, 1437), (0.01, 60_000), (0.5, 10_000), (1e-4, 1e7), (0.9, 50_000), (1e-9, 1e6)]
)
def test_a_batch_is_larger_with_probability_at_most_overflow(rate: float, population: float) -> None:
    rows, most = math.floor(ROOM * population), largest_batch(rate, population)
    assert rate * rows <= most <= rows
    assert most == rows or tail(rows, rate, most) <= OVERFLOW
    assert most <= 1.1 * rate * rows + 60 * math.sqrt(rate * rows) + 400  # and it is not far too large


@pytest.mark.parametrize(("rate", "population", "rows"), [(1.0, 24, 30), (0.5, 24, 30), (1e-12, 3, 3), (0.5, 0.5, 0)])
def test_it_is_never_more_than_all_rows_that_are_admitted(rate: float, population: float, rows: int) -> None:
    assert largest_batch(rate, population) == rows
