"""Poisson sampling has exactly the law that its event names.

The battery makes 4 tests at 2.5e-7 each: a total false-alarm rate of 1e-6. Seeds are fixed.
"""

import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from discreet.core.errors import InputError, RandomnessReuse
from discreet.core.events import Gaussian, Poisson
from discreet.randomness import Purpose, Stream, TestStream
from discreet.sampling import PoissonSampler, Sampler, bernoulli
from discreet.sampling.bernoulli import _threshold, below_threshold

Draw = Callable[[int, int, Stream], npt.NDArray[np.int64]]

RATE = 0.3
LEVEL = 1e-6 / 4


def poisson(rate: float) -> Draw:
    return lambda step, size, stream: PoissonSampler(rate).batches(step, size, stream)[0]


def battery(draw: Draw) -> set[str]:
    """Return the names of the tests that `draw` fails as Poisson sampling at `RATE`."""
    small = inclusion(draw, size=4, steps=20_000, stream=TestStream(1))
    large = inclusion(draw, size=500, steps=2_000, stream=TestStream(2))
    p_values = {
        "subsets": subsets(small),
        "count": binomial(int(large.sum()), large.size, RATE),
        "same unit in neighbouring steps": binomial(*both(large[0::2], large[1::2]), RATE**2),
        "neighbouring units in one step": binomial(*both(large[:, 0::2], large[:, 1::2]), RATE**2),
    }
    return {name for name, p in p_values.items() if not p >= LEVEL}


def inclusion(draw: Draw, size: int, steps: int, stream: Stream) -> npt.NDArray[np.bool_]:
    """Who took part: shape (steps, size)."""
    table = np.zeros((steps, size), dtype=np.bool_)
    for step in range(steps):
        table[step, draw(step, size, stream)] = True
    return table


def subsets(table: npt.NDArray[np.bool_]) -> float:
    """Chi-square over all subsets of the population, with their exact probabilities."""
    steps, size = table.shape
    observed = np.bincount(table @ (1 << np.arange(size)), minlength=2**size)
    sizes = np.array([bin(subset).count("1") for subset in range(2**size)])
    expected = steps * RATE**sizes * (1 - RATE) ** (size - sizes)
    assert expected.min() > 50  # the chi-square law is a fair approximation
    return float(stats.chisquare(observed, expected).pvalue)


def both(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """How often two different draws both included, out of how many (each draw is in one pair only)."""
    return int(np.count_nonzero(first & second)), first.size


def binomial(hits: int, trials: int, probability: float) -> float:
    return float(stats.binomtest(hits, trials, probability).pvalue)


def test_the_law_is_the_events() -> None:
    assert battery(poisson(RATE)) == set()


def test_three_percent_off_fails() -> None:
    assert "count" in battery(poisson(0.97 * RATE))
    assert "count" in battery(poisson(1.03 * RATE))


def test_the_same_batch_at_every_step_fails() -> None:
    def repeated(step: int, size: int, stream: Stream) -> npt.NDArray[np.int64]:
        return PoissonSampler(RATE).batches(0, size, TestStream(5))[0]

    assert {"subsets", "same unit in neighbouring steps"} <= battery(repeated)


def test_a_batch_of_fixed_size_fails() -> None:
    def fixed(step: int, size: int, stream: Stream) -> npt.NDArray[np.int64]:
        words = stream.substream(Purpose.SAMPLING, step).words(size)
        return np.sort(np.argsort(words)[: round(RATE * size)])

    assert "subsets" in battery(fixed)


def test_units_that_come_in_twos_fail() -> None:
    def twins(step: int, size: int, stream: Stream) -> npt.NDArray[np.int64]:
        leaders = PoissonSampler(RATE).batches(step, size // 2, stream)[0]
        return np.sort(np.concatenate([2 * leaders, 2 * leaders + 1]))

    assert {"subsets", "neighbouring units in one step"} <= battery(twins)


@pytest.mark.parametrize(
    ("rate", "threshold"),
    [
        (1.0, 2**64),
        (0.5, 2**63),
        (1 - 2.0**-53, 2**64 - 2**11),
        (2.0**-64, 1),
        (2.0**-64 * 1.999, 1),
        (2.0**-63, 2),
        (3 * 2.0**-65, 1),
        (2.0**-40 * (1 + 2.0**-52), 2**24),
    ],
)
def test_the_threshold_is_exact(rate: float, threshold: int) -> None:
    assert _threshold(rate) == threshold
    assert PoissonSampler(rate).rate == rate


@given(st.floats(2.0**-64, 1.0))
def test_the_threshold_rounds_down_by_less_than_one_word(rate: float) -> None:
    shortfall = Fraction(rate) - Fraction(_threshold(rate), 2**64)
    assert 0 <= shortfall < Fraction(1, 2**64)
    if rate >= 2.0**-11:
        assert shortfall == 0


def bits_of(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    return np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")


@pytest.mark.parametrize("threshold", [2**63 + 5, 2**62 + 12345, 2**57 - 1, 3 * 2**53])
def test_a_unit_is_drawn_exactly_when_its_bits_are_below_the_threshold(threshold: int, monkeypatch: Any) -> None:
    """The bits of every unit, put together from the words in the order in which they are read."""
    monkeypatch.setattr(bernoulli, "_BLOCK_UNITS", 1024)
    live: Iterable[int]
    size, zeros = 2500, 64 - threshold.bit_length()
    substream = TestStream(3).substream(Purpose.SAMPLING, 6)
    heads = np.ones((size + 64, zeros), np.uint8)
    for start in range(0, size, 1024):
        live = range(start, min(start + 1024, size), 64)
        for bit in range(zeros):
            if bit >= 5:
                live = [i for i in live if not heads[i : i + 64, :bit].any(axis=1).all()]
            for i, word in zip(live, substream.words(len(live)), strict=True):
                heads[i : i + 64, bit] = bits_of(np.array([word]))
    candidates = [i for i in range(size) if not heads[i].any()]
    tails = substream.words(len(candidates)).tolist()
    numbers = {i: tail >> zeros for i, tail in zip(candidates, tails, strict=True)}  # after `zeros` zero bits
    expected = [i for i, number in numbers.items() if number < threshold]
    assert below_threshold(threshold, size, TestStream(3).substream(Purpose.SAMPLING, 6)).tolist() == expected
    assert expected


def test_bits_equal_to_the_threshold_are_not_drawn() -> None:
    words = TestStream(3).substream(Purpose.SAMPLING, 0).words(100).tolist()
    threshold = next(word for word in words if word >= 2**63)
    drawn = below_threshold(threshold, 100, TestStream(3).substream(Purpose.SAMPLING, 0))
    assert drawn.tolist() == [i for i, word in enumerate(words) if word < threshold]


@pytest.mark.parametrize("rate", [2.0**-70, 2.0**-65, 5e-324])
def test_a_rate_that_would_draw_nobody_is_refused(rate: float) -> None:
    with pytest.raises(InputError, match="2\\^-64"):
        PoissonSampler(rate)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.0000001, float("nan"), float("inf"), True, "0.1", None])
def test_what_is_not_a_rate_is_refused(rate: object) -> None:
    with pytest.raises(InputError, match="rate"):
        PoissonSampler(rate)


def test_rate_one_draws_everyone_and_still_takes_the_address() -> None:
    stream = TestStream(0)
    assert PoissonSampler(1).batches(0, 5, stream)[0].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(RandomnessReuse):
        PoissonSampler(1).batches(0, 5, stream)


@pytest.mark.parametrize("rate", [1e-9, 0.5, 1.0])
def test_a_population_of_zero_gives_an_empty_batch(rate: float) -> None:
    batch = PoissonSampler(rate).batches(0, 0, TestStream(0))[0]
    assert batch.shape == (0,)
    assert batch.dtype == np.int64


def test_an_empty_batch_is_a_result() -> None:
    stream, sampler = TestStream(4), PoissonSampler(0.001)
    batches = [sampler.batches(step, 10, stream)[0] for step in range(1000)]
    empty = [batch for batch in batches if len(batch) == 0]
    assert len(empty) > 900
    assert all(batch.shape == (0,) and batch.dtype == np.int64 for batch in batches if len(batch) == 0)
    assert len(empty) < 1000


@given(st.floats(0.001, 1.0), st.integers(0, 2000), st.integers(0, 2**64 - 1))
def test_batches_are_sorted_distinct_indices(rate: float, size: int, step: int) -> None:
    batch = PoissonSampler(rate).batches(step, size, TestStream(0))[0]
    assert batch.dtype == np.int64
    assert batch.ndim == 1
    assert np.all(np.diff(batch) > 0)
    assert np.all((batch >= 0) & (batch < size))


def test_a_step_needs_no_earlier_steps() -> None:
    sampler, late, whole = PoissonSampler(0.4), TestStream(9), TestStream(9)
    in_order = [sampler.batches(step, 50, whole)[0].tolist() for step in range(6)]
    assert sampler.batches(5, 50, late)[0].tolist() == in_order[5]
    assert sampler.batches(2, 50, late)[0].tolist() == in_order[2]
    assert all(first != second for first, second in itertools.combinations(in_order, 2))


def test_a_step_is_drawn_once() -> None:
    stream, sampler = TestStream(0), PoissonSampler(0.4)
    sampler.batches(3, 10, stream)
    with pytest.raises(RandomnessReuse):
        sampler.batches(3, 10, stream)


@pytest.mark.parametrize("bad", [-1, 10.0, float("nan"), True, None])
def test_sizes_and_steps_are_checked(bad: object) -> None:
    with pytest.raises(InputError, match="size"):
        PoissonSampler(0.5).batches(0, bad, TestStream(0))
    with pytest.raises(InputError, match="step"):
        PoissonSampler(0.5).batches(bad, 10, TestStream(0))


def test_the_event_is_derived_from_the_sampler() -> None:
    sampler: Sampler = PoissonSampler(0.25)
    assert sampler.event(Gaussian(1.5)) == Poisson(0.25, Gaussian(1.5))
    assert sampler.period == 1


def test_samplers_are_values() -> None:
    assert PoissonSampler(0.5) == PoissonSampler(0.5)
    assert hash(PoissonSampler(0.5)) == hash(PoissonSampler(0.5))
    with pytest.raises(AttributeError):
        PoissonSampler(0.5).rate = 0.6
