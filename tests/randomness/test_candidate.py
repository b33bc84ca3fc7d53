"""The scalar sampler: certified constants, decisions by intervals, and the law with digits so short that every
comparison has to be expanded."""

import itertools
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special

from discreet.randomness import Purpose, TestStream
from discreet.randomness import candidate as module
from discreet.randomness.candidate import LazyUniform, below, candidate, cumulative, integer_part, rounded_product


def words(seed: int, bits: int = 64) -> Callable[[], int]:
    """Return a source of numbers uniform on 0 .. 2^bits - 1."""
    substream = TestStream(seed).substream(Purpose.NOISE, 0)
    return (w >> (64 - bits) for _ in itertools.count() for w in substream.words(4096).tolist()).__next__


def uniform(*digits: int) -> LazyUniform:
    """Return a number with these first digits; it fails if more are asked for."""
    return LazyUniform(iter(digits).__next__)


@pytest.mark.parametrize("bits", [2, 64, 128, 512])
def test_the_cumulative_sums_are_enclosed_tightly(bits: int) -> None:
    lower, upper = cumulative(bits)
    with mpmath.workprec(bits + 200):
        total = mpmath.fsum(mpmath.exp(-mpmath.mpf(k * k) / 2) for k in range(100))
        partial = mpmath.mpf(0)
        for k, (low, high) in enumerate(zip(lower, upper, strict=True)):
            partial += mpmath.exp(-mpmath.mpf(k * k) / 2)
            assert low <= partial / total * 2**bits <= high
            assert high - low <= 2
        assert 1 - partial / total < mpmath.mpf(2) ** -bits


def test_integer_part_expands_at_a_bound_only() -> None:
    lower, upper = cumulative(64)
    assert integer_part(uniform(0)) == 0
    for k in range(8):
        assert integer_part(uniform(lower[k] - 1)) == k
        assert integer_part(uniform(upper[k])) == k + 1
        # The word between the bounds does not decide; its last continuation is above the bound, its first below.
        assert integer_part(uniform(lower[k], 0)) == k
        assert integer_part(uniform(lower[k], 2**64 - 1)) == k + 1
    assert integer_part(uniform(2**64 - 1, 0)) >= 9


@pytest.mark.parametrize(
    ("a", "b", "decision"),
    [
        ((5,), (6,), True),
        ((6,), (5,), False),
        ((5, 1), (5, 2), True),
        ((5, 5, 2), (5, 5, 1), False),
    ],
)
def test_ties_are_decided_by_further_digits(a: tuple[int, ...], b: tuple[int, ...], decision: bool) -> None:
    assert below(1, uniform(*a), 0, uniform(*b)) is decision


def test_a_comparison_waits_until_no_continuation_could_change_it() -> None:
    # 4 a < 2 + b: with a = (2^63 + d) / 2^64 and b = 4 d / 2^64 the first digits leave both outcomes open.
    assert below(4, uniform(2**63 + 7, 0), 2, uniform(28, 2**64 - 1)) is True
    assert below(4, uniform(2**63 + 7, 2**63), 2, uniform(28, 2**64 - 1)) is False
    with pytest.raises(StopIteration):
        below(4, uniform(2**63 + 7), 2, uniform(28))


def test_numbers_of_different_length_are_aligned() -> None:
    long = uniform(5, 9)
    long.expand()
    assert below(1, uniform(5, 8), 0, long) is True
    assert below(1, long, 0, uniform(4, 0)) is False


@pytest.mark.parametrize("scale", [1, 2, 3, 7, 2**30, 10**12 + 39, 2**50])
def test_rounding_is_that_of_every_continuation(scale: int) -> None:
    source = words(1)
    halves = [(2 * j + 1) * 2**63 // scale for j in range(min(scale, 20))]  # the digits nearest to (j + 1/2) / scale
    for first in [w + d for w in halves for d in (-1, 0, 1)] + [0, 2**64 - 1] + [source() for _ in range(100)]:
        first = min(max(first, 0), 2**64 - 1)
        x = uniform(first, *(source() for _ in range(5)))
        rounded = rounded_product(scale, x)
        for end in (Fraction(x.head, 2**x.bits), Fraction(x.head + 1, 2**x.bits) - Fraction(1, 2 ** (x.bits + 64))):
            assert abs(scale * end - rounded) <= Fraction(1, 2)


@pytest.mark.parametrize(("bits", "scale"), [(1, 3), (2, 3), (5, 1), (64, 3)])
def test_the_law_does_not_depend_on_the_length_of_digits(
    bits: int, scale: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With digits of one or two bits nearly every decision needs expansion. Each p-value is held at 1e-7.
    monkeypatch.setattr(module, "DIGIT_BITS", bits)
    monkeypatch.setattr(module, "SIGN_BIT", 1 << (bits - 1))
    source, trials = words(bits, bits), 60_000
    drawn = [candidate(source, scale) for _ in range(trials)]
    values = np.array([v for v in drawn if v is not None])

    rate = float(mpmath.sqrt(mpmath.pi / 2) / mpmath.fsum(mpmath.exp(-k * k / 2) for k in range(20)))
    deviation = (len(values) - trials * rate) / np.sqrt(trials * rate * (1 - rate))
    assert 2 * special.ndtr(-abs(deviation)) > 1e-7

    edge = 2 * scale  # cells -edge .. edge, the outer two with their tails; each expects more than 1,000 values
    counts = np.bincount(np.clip(values, -edge, edge) + edge, minlength=2 * edge + 1)
    cuts = special.ndtr((np.arange(-edge, edge) + 0.5) / scale)
    expected = len(values) * np.diff(cuts, prepend=0, append=1)
    assert special.chdtrc(2 * edge, np.sum((counts - expected) ** 2 / expected)) > 1e-7
