"""One exact candidate for a rounded normal, in integers of any length. `exact.py` draws many at once in the same way.

    1. k >= 0 with probability proportional to exp(-k^2 / 2)      one uniform, compared with the cumulative sums
    2. x uniform on [0, 1)                                        one uniform
    3. accept with probability exp(-x (2 k + x) / 2)              k + 1 trials that all succeed
    4. a sign, and k + x is the absolute value of a normal

This is Algorithm N of Karney, "Sampling exactly from the normal distribution", ACM TOMS 42 (2016), article 3,
except that step 1 does his steps N1 and N2 by inversion. Every uniform number is a sequence of 64-bit digits, drawn
only as far as decisions need them: a comparison waits for more digits until the intervals of both numbers decide it,
and no float takes part. So the law is exact if the words are uniform bits.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from math import ceil, floor

DIGIT_BITS = 64
SIGN_BIT = 1 << (DIGIT_BITS - 1)
_GUARD_BITS = 64

NextWord = Callable[[], int]
"""Returns the next of independent words, uniform on 0 .. 2^64 - 1."""


class LazyUniform:
    """A number uniform on [0, 1), known so far to lie in [head, head + 1) / 2^bits."""

    __slots__ = ("_next_word", "bits", "head")

    def __init__(self, next_word: NextWord) -> None:
        self._next_word = next_word
        self.head = next_word()
        self.bits = DIGIT_BITS

    def expand(self) -> None:
        """Draw one more digit."""
        self.head = (self.head << DIGIT_BITS) | self._next_word()
        self.bits += DIGIT_BITS


def candidate(next_word: NextWord, scale: int) -> int | None:
    """Return `scale` x a normal, rounded, or None if the candidate is rejected (probability 0.285).

    P(K = k given acceptance) = Phi((k + 1/2) / scale) - Phi((k - 1/2) / scale). `scale` is at least 1.
    """
    k = integer_part(LazyUniform(next_word))
    x = LazyUniform(next_word)
    if not all(trial(next_word, k, x) for _ in range(k + 1)):
        return None
    negative = next_word() < SIGN_BIT
    size = scale * k + rounded_product(scale, x)
    return -size if negative else size


def integer_part(u: LazyUniform) -> int:
    """Return the k whose interval of the cumulative sums contains `u`: P(k) is proportional to exp(-k^2 / 2)."""
    while True:
        lower, upper = cumulative(u.bits)
        k = sum(bound <= u.head for bound in upper)  # the sum up to k - 1 is at most u
        if k < len(lower) and u.head < lower[k]:  # and the sum up to k is above u
            return k
        u.expand()


def trial(next_word: NextWord, k: int, x: LazyUniform) -> bool:
    """Return True with probability exp(-x p), where p = (2 k + x) / (2 k + 2). Karney's Algorithm B.

    The run x > z1 > z2 > ... goes on while each number is below the one before and a coin of probability p
    comes up. It reaches length n with probability (x p)^n / n!, so it is even with probability exp(-x p).
    """
    y, even = x, True
    while True:
        z = LazyUniform(next_word)
        if not below(1, z, 0, y):
            return even
        if not below(2 * k + 2, LazyUniform(next_word), 2 * k, x):
            return even
        y, even = z, not even


def below(factor: int, a: LazyUniform, offset: int, b: LazyUniform) -> bool:
    """Return whether factor x a < offset + b, expanding both numbers until the answer is certain."""
    while True:
        while a.bits < b.bits:
            a.expand()
        while b.bits < a.bits:
            b.expand()
        left, right = factor * a.head, (offset << b.bits) + b.head
        if left + factor <= right:  # the numbers are in [left, left + factor) and in [right, right + 1)
            return True
        if left >= right + 1:
            return False
        a.expand()


def rounded_product(scale: int, x: LazyUniform) -> int:
    """Return `scale` times x, rounded to the nearest integer, expanding x until the result is certain."""
    while True:
        half, shift = 1 << (x.bits - 1), x.bits
        least = (scale * x.head + half) >> shift
        most = (scale * (x.head + 1) + half - 1) >> shift  # the upper end itself is not reached
        if least == most:
            return least
        x.expand()


@cache
def cumulative(bits: int) -> tuple[list[int], list[int]]:
    """Return (lower, upper) with lower[k] <= 2^bits P(integer part <= k) <= upper[k].

    Integers are rounded outward, with guard bits, so lower[k] and upper[k] are nearly always one apart. Where the
    lists end, the probability exceeds 1 - 2^-bits. The weights are exp(-k^2 / 2) = q^(k^2) with q = exp(-1/2).
    """
    guarded = bits + _GUARD_BITS
    low, high = _exp_minus_half(guarded)
    lower_sums, upper_sums = [1 << guarded], [1 << guarded]
    weight, square = 2, 0
    while weight > 1:  # the weights after one of at most 1 sum to less than 1: each is less than half the last
        square = len(upper_sums) ** 2
        shift = guarded * (square - 1)
        weight = _shifted_up(high**square, shift)
        lower_sums.append(lower_sums[-1] + (low**square >> shift))
        upper_sums.append(upper_sums[-1] + weight)
    least, most = lower_sums[-1], upper_sums[-1] + 1  # around the sum of all weights
    return [(s << bits) // most for s in lower_sums], [-((-s << bits) // least) for s in upper_sums]


def _exp_minus_half(bits: int) -> tuple[int, int]:
    """Return integers around 2^bits exp(-1/2): partial sums of its alternating series lie on both sides of it."""
    term, total, previous, j = Fraction(1), Fraction(1), Fraction(0), 0
    while abs(term) * 2**bits > 1:
        j += 1
        term *= Fraction(-1, 2 * j)
        previous, total = total, total + term
    low, high = sorted((previous, total))
    return floor(low * 2**bits), ceil(high * 2**bits)


def _shifted_up(number: int, shift: int) -> int:
    """Return number / 2^shift, rounded up."""
    return -(-number >> shift)
