"""One candidate for a rounded normal, exactly, in integers of any length. `exact.py` does the same for many at once.

    1. k >= 0 with probability proportional to exp(-k^2 / 2)      one uniform, compared with the cumulative sums
    2. x uniform on [0, 1)                                        one uniform
    3. accept with probability exp(-x (2 k + x) / 2)              k + 1 trials that all succeed
    4. a sign, and k + x is the absolute value of a normal

This is Algorithm N of Karney, "Sampling exactly from the normal distribution", ACM TOMS 42 (2016), article 3,
except that step 1 is his steps N1 and N2 done by inversion. Every uniform number is a sequence of 64-bit digits
of which only as many are drawn as the decisions need: a comparison is decided by intervals or not at all, and
no float takes part. So the law is exact if the words are uniform bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

DIGIT_BITS = 64
SIGN_BIT = 1 << (DIGIT_BITS - 1)

NextWord = Callable[[], int]
"""Gives independent words, uniform on 0 .. 2^64 - 1."""


class LazyUniform:
    """A number uniform on [0, 1), known so far to lie in [head, head + 1) / 2^bits."""

    def __init__(self, next_word: NextWord) -> None:
        self._next_word = next_word
        self.head = next_word()
        self.bits = DIGIT_BITS

    def expand(self) -> None:
        """Draw one more digit."""
        self.head = (self.head << DIGIT_BITS) | self._next_word()
        self.bits += DIGIT_BITS


def candidate(next_word: NextWord, scale: int) -> int | None:
    """Return the rounded product of `scale` and a normal, or None if the candidate is rejected (probability 0.285).

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
    """Succeed with probability exp(-x p), where p = (2 k + x) / (2 k + 2). Karney's Algorithm B.

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
    """Decide whether factor a < offset + b, expanding both numbers until it is certain."""
    while True:
        left, right = factor * a.head, (offset << b.bits) + b.head
        if left + factor <= right:
            return True
        if left >= right + 1:
            return False
        a.expand()
        while b.bits < a.bits:
            b.expand()
        while a.bits < b.bits:
            a.expand()


def rounded_product(scale: int, x: LazyUniform) -> int:
    """Return scale x x rounded to the nearest integer, expanding x until that is certain."""
    while True:
        half, shift = 1 << (x.bits - 1), x.bits
        least = (scale * x.head + half) >> shift
        most = (scale * (x.head + 1) + half - 1) >> shift  # the upper end itself is not reached
        if least == most:
            return least
        x.expand()


@cache
def cumulative(bits: int) -> tuple[list[int], list[int]]:
    """Return (lower, upper) with lower[k] <= 2^bits P(integer part <= k) <= upper[k], as close as integers can be
    (nearly always 1 apart). Past the end of the lists, the probability is above 1 - 2^-bits.

    By integer arithmetic rounded outward, with 64 guard bits, from exp(-k^2 / 2) = q^(k^2), q = exp(-1/2).
    """
    guarded = bits + DIGIT_BITS
    low, high = _exp_minus_half(guarded)
    lower_sums, upper_sums = [1 << guarded], [1 << guarded]
    k = 0
    while upper_weight := -(-(high ** ((k + 1) ** 2)) >> guarded * (((k + 1) ** 2) - 1)):
        k += 1
        lower_sums.append(lower_sums[-1] + (low ** (k * k) >> guarded * (k * k - 1)))
        upper_sums.append(upper_sums[-1] + upper_weight)
        if upper_weight == 1:  # the weights that are left sum to less than this one: each is less than half the last
            break
    least_total, greatest_total = lower_sums[-1], upper_sums[-1] + 1
    lower = [(s << bits) // greatest_total for s in lower_sums]
    upper = [-((-s << bits) // least_total) for s in upper_sums]
    return lower, upper


def _exp_minus_half(bits: int) -> tuple[int, int]:
    """Return integers around 2^bits exp(-1/2), from its alternating series, whose partial sums enclose it."""
    raise NotImplementedError
