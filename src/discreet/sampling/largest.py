"""The largest Poisson batch, up to a probability that is set aside in delta."""

from __future__ import annotations

import math

OVERFLOW = 1e-100
"""The probability, per step, with which a batch may exceed `largest_batch`."""

ROOM = 1.25
"""The data may have this many times the rows that a plan declares; more are refused before anything is charged."""


def largest_batch(rate: float, population: float) -> int:
    """A size that a Poisson batch from up to `ROOM x population` rows exceeds with probability at most `OVERFLOW`.

    Bernstein's inequality, P(size > m + t) <= exp(-t^2 / (2 (m + t / 3))) for mean m (variance at most m), is solved
    for t. The result is at most the number of rows. Everything here is public.
    """
    rows = math.floor(ROOM * population)
    mean, log_inverse = rate * rows, -math.log(OVERFLOW)
    excess = log_inverse / 3 + math.sqrt((log_inverse / 3) ** 2 + 2 * mean * log_inverse)
    return min(rows, math.ceil(mean + excess))
