"""Every sampler has exactly the law that its event names.

One battery for all: chi-square over everything that can be drawn from a few units, with probabilities found by
enumeration in rational numbers, and single counts on more units. Seeds are fixed; the battery makes 25 tests at 4e-8
each, a false-alarm rate of 1e-6 in all. Broken samplers show that it can fail.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sampler_laws import CASES, ONE, Case, draw_of, p_value
from scipy import stats

from discreet.core.errors import InputError, RandomnessReuse
from discreet.core.events import (
    Compose,
    Gaussian,
    Repeat,
    steps_of,
)
from discreet.randomness import Purpose, Stream, TestStream
from discreet.sampling import (
    AllocationSampler,
    EveryoneSampler,
    FixedSizeSampler,
    FixedSizeSampling,
    IndividualSampler,
    PoissonSampler,
    PoissonSampling,
    Sampler,
    ShuffleSampler,
    ShuffleSampling,
    TruncatedPoissonSampler,
    register,
)
from discreet.sampling.uniform import below, order, subset, subsets

LEVEL = 1e-6 / 25
BY_NAME = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@BY_NAME
def test_the_law_is_the_events(case: Case) -> None:
    assert sum(case.law.values()) == 1
    assert p_value(case.sampler, case.size, case.law, seed=1) >= LEVEL


@BY_NAME
def test_the_event_says_what_the_period_releases(case: Case) -> None:
    assert case.sampler.event(case.inner) == case.event
    assert len(steps_of(case.event)) == case.sampler.period
    assert set(steps_of(case.event)) == {ONE}
    assert len(case.sampler.batches(0, case.size, TestStream(0))) == case.sampler.period


def first_ones(sampler: Sampler) -> Callable[..., tuple[npt.NDArray[np.int64], ...]]:
    """What leaves out the last by position instead of at random."""

    def batches(first: int, size: int, stream: Stream) -> tuple[npt.NDArray[np.int64], ...]:
        (drawn,) = PoissonSampler(0.5).batches(first, size, stream)
        return (drawn[:2],)

    return batches


def shuffled_once(first: int, size: int, stream: Stream) -> tuple[npt.NDArray[np.int64], ...]:
    """The same order in every epoch."""
    return ShuffleSampler(5, 2).batches(0, size, TestStream(8))


def drawn_with_replacement(first: int, size: int, stream: Stream) -> tuple[npt.NDArray[np.int64], ...]:
    return (np.unique(below(size, 2, stream.substream(Purpose.SAMPLING, first))),)


def poisson_for_allocation(first: int, size: int, stream: Stream) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(PoissonSampler(1 / 3).batches(first + i, size, stream)[0] for i in range(3))


def poisson_for_turns(first: int, size: int, stream: Stream) -> tuple[npt.NDArray[np.int64], ...]:
    """Units that may be in several steps of a round, with the right rate of each."""
    return tuple(PoissonSampler(1 / 6).batches(first + i, size, stream)[0] for i in range(3))


def one_cycle(first: int, size: int, stream: Stream) -> tuple[npt.NDArray[np.int64], ...]:
    """The off-by-one of the classic shuffle: nobody ever keeps their place."""
    ranks, sub = np.arange(size), stream.substream(Purpose.SAMPLING, first)
    for i in range(size - 1, 0, -1):
        j = below(i, 1, sub)[0]
        ranks[i], ranks[j] = ranks[j], ranks[i]
    return tuple(np.sort(ranks[i : i + 2]) for i in range(0, size, 2))


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("truncated", first_ones(PoissonSampler(0.5))),
        ("shuffle", shuffled_once),
        ("shuffle", one_cycle),
        ("fixed size", drawn_with_replacement),
        ("allocation", poisson_for_allocation),
        ("cyclic", poisson_for_turns),
    ],
)
def test_a_broken_sampler_fails(name: str, broken: Any) -> None:
    @dataclass(frozen=True)
    class Broken:
        period: int
        batches: Any

    case = CASES[name]
    assert p_value(Broken(case.sampler.period, broken), case.size, case.law, seed=1) < LEVEL


@BY_NAME
def test_a_period_is_drawn_alone_and_once(case: Case) -> None:
    sampler, period = case.sampler, case.sampler.period
    whole = TestStream(9)
    in_order = [draw_of(sampler, i * period, case.size, whole) for i in range(6)]
    assert draw_of(sampler, 5 * period, case.size, TestStream(9)) == in_order[5]
    with pytest.raises(RandomnessReuse):
        sampler.batches(2 * period, case.size, whole)


@BY_NAME
def test_batches_are_sorted_distinct_indices(case: Case) -> None:
    for i in range(50):
        for batch in case.sampler.batches(i * case.sampler.period, case.size, TestStream(3)):
            assert batch.dtype == np.int64
            assert batch.ndim == 1
            assert np.all(np.diff(batch) > 0)
            assert np.all((batch >= 0) & (batch < case.size))


def test_empty_batches_are_drawn_like_any_other() -> None:
    assert any(draw == ((),) for draw in (draw_of(PoissonSampler(0.25), i, 3, TestStream(1)) for i in range(20)))
    sparse = AllocationSampler(40)
    assert sum(batch.size == 0 for batch in sparse.batches(0, 3, TestStream(1))) >= 37
    for sampler in (PoissonSampler(0.5), TruncatedPoissonSampler(0.5, 2, 5), EveryoneSampler()):
        assert draw_of(sampler, 0, 0, TestStream(1)) == ((),)


@pytest.mark.parametrize(
    ("sampler", "size"),
    [(FixedSizeSampler(5, 2), 4), (FixedSizeSampler(5, 2), 6), (ShuffleSampler(5, 2), 6), (ShuffleSampler(5, 2), 4)],
)
def test_a_declared_size_is_the_true_one(sampler: Sampler, size: int) -> None:
    with pytest.raises(InputError, match="declared for exactly 5 units"):
        sampler.batches(0, size, TestStream(0))


def test_more_units_than_the_bound_are_refused() -> None:
    with pytest.raises(InputError, match="at most 5 units, got 6"):
        TruncatedPoissonSampler(0.5, 2, 5).batches(0, 6, TestStream(0))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: FixedSizeSampler(5, 6),
        lambda: ShuffleSampler(5, 0),
        lambda: AllocationSampler(3, 4),
        lambda: AllocationSampler(0),
        lambda: TruncatedPoissonSampler(0.5, 0, 5),
        lambda: TruncatedPoissonSampler(1.5, 2, 5),
        lambda: AllocationSampler(3).event(Compose((Repeat(ONE, 2), Gaussian(2.0)))),
        lambda: AllocationSampler(3).event(Repeat(ONE, 2)),
        lambda: IndividualSampler(3, 4),
        lambda: IndividualSampler(3, 2).event(Compose((Repeat(ONE, 2), Gaussian(2.0)))),
    ],
)
def test_what_cannot_be_drawn_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        wrong()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", True, None, math.nan, math.inf])
def test_each_number_of_a_sampler_is_checked(wrong: object) -> None:
    for sampler in (*(case.sampler for case in CASES.values()), IndividualSampler(3, 2)):
        for field in dataclasses.fields(sampler):  # type: ignore[arg-type]
            with pytest.raises(InputError):
                dataclasses.replace(sampler, **{field.name: wrong})  # type: ignore[type-var]


def test_a_public_number_of_rows_is_whole() -> None:
    for record in (FixedSizeSampling(batch=2), ShuffleSampling(batch=2)):
        assert record.sampler(10.0).period
        with pytest.raises(InputError, match=r"a whole number, got 10\.5"):
            record.sampler(10.5)


def test_a_kind_of_sampling_has_one_record() -> None:
    with pytest.raises(InputError, match="'poisson' is PoissonSampling already; take another kind"):
        register(PoissonSampling)


def test_units_larger_than_a_word_are_chosen_uniformly() -> None:
    """Single counts on more units than can be enumerated: every unit equally often, within chance."""
    sub = TestStream(11).substream(Purpose.SAMPLING, 0)
    counts = np.bincount(np.concatenate([subset(300, 7, sub) for _ in range(6000)]), minlength=300)
    assert stats.chisquare(counts).pvalue >= LEVEL
    many = np.bincount(np.concatenate([subset(60, 45, sub) for _ in range(3000)]), minlength=60)
    assert stats.chisquare(many).pvalue * 1.0 >= LEVEL
    firsts = np.bincount([order(40, sub)[0] for _ in range(8000)], minlength=40)
    assert stats.chisquare(firsts).pvalue >= LEVEL
    assert stats.chisquare(np.bincount(below(37, 40_000, sub), minlength=37)).pvalue >= LEVEL
    for chosen in (2, 9):
        rows = subsets(4000, 12, chosen, sub)
        assert all(len(set(row)) == chosen for row in rows.tolist())
        assert stats.chisquare(np.bincount(rows.ravel(), minlength=12)).pvalue >= LEVEL


def test_samplers_are_values() -> None:
    for case in CASES.values():
        fields = dataclasses.fields(case.sampler)  # type: ignore[arg-type]
        assert case.sampler == dataclasses.replace(case.sampler)  # type: ignore[type-var]
        for field in fields:
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(case.sampler, field.name, 1)
