"""One run, any mechanism: how many guesses may be right if the run keeps a trade-off function.

**Theorem** (Mahloujifar, Melis, Chaudhuri 2024, Theorem 9 and Algorithm 3). m fair coins decide which canaries are in.
Flipping one coin keeps the trade-off function f; F = 1 - f. From what the run gives away, g coins are guessed, g fixed
beforehand. With C the number of right guesses and p_j = P(C = j), let

    r_i = sum_{j >= i} j p_j / m,        h_i = sum_{j >= i} (g - j) p_j / m.

Then r_{i+1} <= F(h_i) for every i. For a coin drawn at random: that it is guessed right, with at least i right guesses
about others, is an event whose probability is r_{i+1}; with the coin flipped the same guess is wrong, and this has the
probability h_i. (F is concave, so it may be averaged over coins.) Nothing is assumed of the mechanism: canaries may
share its noise.

**What is computed.** The largest P(C >= c) under these constraints is a linear programme; `refuted` shows that it is
less than a level b. If it is not, some p has P(C >= c) = b exactly (the values that are reached are an interval from
0). Then r_c + h_c = b g / m and r_c >= b c / m. Going down from i = c - 1, with w_i = i / (g - i),

    h_i >= max(h_{i+1}, F^-1(r_{i+1})),      r_i = A_i + w_i h_i,
    A_{c-1} = b g / (m (g - c + 1)) or more, A_{i-1} = A_i + (w_i - w_{i-1}) h_i,

since j p_j / m = w_j (h_j - h_{j+1}). All coefficients are positive, so lower bounds on h and r stay lower bounds, with
each operation rounded down. Exception: where F^-1 asks for nothing at i = c - 1, it asks for nothing below either, and
nothing is refuted. If r_0 + h_0 > g / m the probabilities exceed 1: there is no such p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from discreet.accounting.bisection import bisect
from discreet.audit.bounds.curve_lines import Lines
from discreet.core.array_types import Array
from discreet.randomness.machine_code import machine_code

_LEAST = -280.0
"""The smallest level that is tried, as a power of ten."""


def refuted(lines: Lines, right: int, guesses: int, canaries: int, level: float) -> bool:
    """Whether `right` or more of `guesses` are right with a probability below `level`, for every mechanism whose
    trade-off function is the one that `lines` bound."""
    if not (0 < right <= guesses <= canaries and 0 < level <= 1) or not len(lines.growths):
        return False
    shrinks = (1 - 2.0**-48) / lines.growths[::-1]  # ascending: the inverse of F needs them as its argument grows
    constants = np.ascontiguousarray(lines.constants[::-1])
    return bool(_compiled()(level, right, guesses, canaries, np.ascontiguousarray(shrinks), constants))


def p_value(lines: Lines, right: int, guesses: int, canaries: int) -> float:
    """The least level that `refuted` reaches, rounded up; 1 if there is none."""
    return least_level(lambda level: refuted(lines, right, guesses, canaries, level))


def least_level(refutes: Callable[[float], bool]) -> float:
    """The least level at which `refutes`, which is monotone, rounded up; 1 if it never does."""
    if not refutes(1.0):
        return 1.0
    _, high = bisect(lambda power: refutes(10.0**power), _LEAST, 0.0, absolute=1e-6)
    return min(1.0, float(math.nextafter(10.0**high, 1.0)))


def _exceeds(level: float, right: int, guesses: int, canaries: int, shrinks: Array, constants: Array) -> bool:
    """Whether no probabilities p of the header have P(C >= `right`) = `level`, as they would add up to more than 1. All
    is rounded down."""
    down = 1 - 2.0**-50
    whole = guesses / canaries * (1 + 2.0**-50)
    base = level * guesses / canaries / (guesses - right + 1) * down
    h = level * (guesses - right) / canaries * down
    r = level * right / canaries * down
    line = 0
    for i in range(right - 1, -1, -1):
        while line + 1 < len(shrinks) and (r - constants[line + 1]) * shrinks[line + 1] >= (
            (r - constants[line]) * shrinks[line]
        ):
            line += 1
        needed = (r - constants[line]) * shrinks[line] * down
        if not needed > h:
            return False
        h = needed
        r = (base + i / (guesses - i) * h * down) * down
        if r + h > whole:
            return True
        step = guesses / (guesses - i) / (guesses - i + 1)
        base = (base + step * h * down) * down
    return False


@cache
def _compiled() -> Callable[..., Any]:
    return machine_code(_exceeds, "boolean(float64, int64, int64, int64, float64[::1], float64[::1])")
