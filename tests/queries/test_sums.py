"""What one row can change, in rational arithmetic, for neighbours of every adjacency; and the answers themselves."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from discreet.core.adjacency import Adjacency, sensitivity_ratio
from discreet.core.errors import InputError
from discreet.queries import Count, Covariance, Histogram, Mean, Sum, principal_components, release
from discreet.queries.answering import _with_noise
from discreet.queries.rows import clipped_units, unit_gram, usable
from discreet.queries.sums import NoisySum
from discreet.randomness import NOISE_SAMPLERS, Purpose, RoundedSampler, TestStream

BOUND = 0.7
QUERIES: list[Any] = [
    Count(),
    Count(0, -0.5, 0.5),
    Sum(BOUND),
    Mean(BOUND),
    Histogram((-1.0, -0.1, 0.0, 0.3, 2.0)),
    Covariance(BOUND),
]
extremes = [0.0, -0.0, 5e-324, 1e-310, 1e308, -1e308, math.nan, math.inf, BOUND, BOUND / math.sqrt(2), 0.5, 1.0]
numbers = st.one_of(st.sampled_from(extremes), st.floats(-2, 2), st.floats(allow_nan=True))
row = st.tuples(numbers, numbers, numbers)
multipliers = st.sampled_from([2.0**-20, 0.3, 1.0, 16.0, 1e5])


def neighbour(rows: list[Any], other: Any, adjacency: Adjacency) -> list[Any]:
    """The rows with the first one removed, replaced by a null record, or replaced by `other`."""
    match adjacency:
        case Adjacency.ADD_REMOVE:
            return rows[1:]
        case Adjacency.ZERO_OUT:
            return [(math.nan,) * 3, *rows[1:]]  # contributes zero to every query
        case Adjacency.REPLACE_ONE:
            return [other, *rows[1:]]


def sums_of(query: Any, rows: list[Any], multiplier: float) -> tuple[NoisySum, ...]:
    return query.sums(usable(np.array(rows, np.float64).reshape(len(rows), 3)), multiplier)  # type: ignore[no-any-return]


def moved(one: NoisySum, other: NoisySum) -> Fraction:
    """The squared distance of two sums relative to one unit's contribution, exactly."""
    difference = [int(a) - int(b) for a, b in zip(one.units.ravel(), other.units.ravel(), strict=True)]
    return Fraction(sum(d * d for d in difference)) / Fraction(one.contribution) ** 2


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("query", QUERIES, ids=str)
@settings(max_examples=60, derandomize=True)
@given(rows=st.lists(row, min_size=1, max_size=4), other=row, multiplier=multipliers)
def test_no_neighbour_moves_a_sum_further_than_its_event_says(
    query: Any, adjacency: Adjacency, rows: list[Any], other: Any, multiplier: float
) -> None:
    pairs = zip(
        sums_of(query, rows, multiplier), sums_of(query, neighbour(rows, other, adjacency), multiplier), strict=True
    )
    for kind, (here, there) in zip(query.kinds, pairs, strict=True):
        assert here.kind is kind
        ratio = Fraction(sensitivity_ratio(kind, adjacency) ** 2).limit_denominator(1000)
        assert moved(here, there) <= ratio


@pytest.mark.parametrize(
    ("query", "one", "other", "ratio"),
    [
        (Count(), (0, 0, 0), (math.nan, 0, 0), 1.0),
        (Sum(BOUND), (1, 1, 1), (-1, -1, -1), 2.0),
        (Histogram((-1.0, 0.0, 1.0)), (-0.5, 0, 0), (0.5, 0, 0), math.sqrt(2)),
        (Covariance(BOUND), (9, 0, 0), (0, 9, 0), math.sqrt(2)),
    ],
    ids=str,
)
def test_some_neighbour_moves_it_that_far(query: Any, one: Any, other: Any, ratio: float) -> None:
    """So the bound of the test above is not slack: a sensitivity a hundredth smaller would be found out."""
    (here,), (there,) = sums_of(query, [one], 1.0), sums_of(query, [other], 1.0)
    assert float(moved(here, there)) ** 0.5 == pytest.approx(ratio, rel=1e-5)
    assert sensitivity_ratio(query.kinds[0], Adjacency.REPLACE_ONE) == ratio


@settings(max_examples=150, derandomize=True)
@given(
    st.lists(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-3, 3)), min_size=1, max_size=6),
    st.floats(1e-3, 1e3),
    st.integers(-30, -1),
)
def test_a_clipped_row_is_within_its_bound_in_rationals(values: list[float], bound: float, power: int) -> None:
    unit = 2.0 ** (power + math.frexp(bound)[1])
    (units,) = clipped_units(np.array([values]), bound, unit)
    assert sum(int(u) ** 2 for u in units) * Fraction(unit) ** 2 <= Fraction(bound) ** 2
    if math.hypot(*values) < bound * (1 - 1e-9):
        assert np.allclose(units * unit, values, rtol=0, atol=unit)
    elif max(map(abs, values)) < 1e150:
        direction = np.array(values) / np.linalg.norm(values)
        assert np.allclose(units * unit, direction * bound, rtol=1e-9, atol=1.01 * unit)


def test_a_gram_matrix_of_many_rows_is_exact() -> None:
    """Against integers of any size."""
    rows = np.random.default_rng(0).normal(size=(5000, 3))
    units = clipped_units(rows, 1.0, 2.0**-21).astype(object)
    assert (unit_gram(rows, 1.0, 21) == (units.T @ units)).all()
    longest = np.full((4096, 1), 7.0)
    assert unit_gram(longest, 1.0, 21)[0, 0] == 4096 * (2**21 - 1) ** 2


@pytest.mark.parametrize("multiplier", [2.0**-20, 0.37, 1.0, 16.0, 1e4])
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_the_noise_asked_for_is_multiplier_times_contribution_and_the_grid_is_fine(
    query: Any, multiplier: float
) -> None:
    asked: list[int] = []

    def draw(_substream: Any, n: int, scale: int) -> Any:
        asked.append(scale)
        return np.zeros(n, np.int64)

    for total in sums_of(query, [(0.1, 0.2, 0.3)], multiplier):
        _with_noise(total, multiplier, RoundedSampler("none", draw, ""), TestStream(0).substream(Purpose.NOISE, 0))
        least = Fraction(multiplier) * Fraction(total.contribution)
        assert least <= asked[-1] <= least * (1 + Fraction(1, 2**19))
        assert asked[-1] >= 2**20


@pytest.mark.parametrize("noise", list(NOISE_SAMPLERS))
def test_the_noise_of_answers_has_the_stated_law(accounts: Any, noise: str) -> None:
    """Variance by chi-square, false alarm 1e-9, for a sum (std 2 x 0.7) and a covariance (std 2 x 0.49, mirrored);
    a mechanism with a tenth less noise is found out."""
    size = 150
    total, matrix = release(np.zeros((5, size)), [Sum(BOUND), Covariance(BOUND)], accounts(noise=noise), 2.0, rate=1.0)
    upper = matrix[np.triu_indices(size)]
    assert np.array_equal(matrix, matrix.T)
    low, high = (stats.chi2.ppf(level, len(upper)) for level in (5e-10, 1 - 5e-10))
    ratio = float(np.sum((upper / (2 * BOUND**2)) ** 2))
    assert low < ratio < high
    assert not low < 0.81 * ratio < high
    low, high = (stats.chi2.ppf(level, size) for level in (5e-10, 1 - 5e-10))
    assert low < float(np.sum((total / (2 * BOUND)) ** 2)) < high


def test_with_hardly_any_noise_the_answers_are_those_of_numpy(accounts: Any) -> None:
    rows = np.random.default_rng(5).normal(size=(400, 3))
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped = rows * np.minimum(1, BOUND / norms)
    queries = [*QUERIES, Mean(BOUND, 1000), Sum(9.0, (2, 0))]
    count, some, total, mean, bins, gram, declared, part = release(rows, queries, accounts(), 2.0**-20)
    assert count == pytest.approx(400, abs=1e-4)
    assert some == pytest.approx(np.sum((rows[:, 0] >= -0.5) & (rows[:, 0] < 0.5)), abs=1e-4)
    assert np.allclose(total, clipped.sum(axis=0), atol=1e-4)
    assert np.allclose(mean, clipped.mean(axis=0), atol=1e-5)
    assert np.allclose(declared, clipped.sum(axis=0) / 1000, atol=1e-5)
    assert np.allclose(part, rows[:, [2, 0]].sum(axis=0), atol=1e-3)
    inside = rows[:, 0][rows[:, 0] < 2.0]  # numpy's last bin is closed
    assert np.allclose(bins, np.histogram(inside, (-1.0, -0.1, 0.0, 0.3, 2.0))[0], atol=1e-4)
    assert np.allclose(gram, clipped.T @ clipped, atol=1e-2)
    assert count.shape == ()
    assert gram.shape == (3, 3)


@pytest.mark.parametrize(
    ("query", "multiplier", "answer"),
    [
        (Count(), 2.0**-20, 3_000_000),
        (Count(), 1e-4, 3_000_000),
        (Histogram((0.0, 2.0)), 2.0**-20, [3_000_000]),
        (Sum(1.0), 2e-6, [3_000_000]),
        (Mean(1.0), 2e-6, [1]),
        (Covariance(1.0), 0.5, [[3_000_000]]),
    ],
    ids=str,
)
def test_many_rows_and_little_noise_do_not_wrap_around(
    query: Any, multiplier: float, answer: Any, accounts: Any
) -> None:
    """Some of these sums have 71 digits of two on their grids; they were cut at 2^62, or wrapped to below 0."""
    (found,) = release(np.ones((3_000_000, 1)), [query], accounts(), multiplier)
    assert np.allclose(found, answer, rtol=2.0**-20, atol=8 * multiplier)


def test_a_mean_stays_within_its_ball(accounts: Any) -> None:
    (mean,) = release(np.ones((0, 3)), [Mean(1.0)], accounts(), 50.0)
    assert np.linalg.norm(mean) <= 1 + 1e-12


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Count(-1), "column"),
        (lambda: Count(0, 1.0, 1.0), "low must be below high"),
        (lambda: Count(0, math.nan), "low"),
        (lambda: Sum(0.0), "bound"),
        (lambda: Sum(1.0, (1.5,)), "columns"),
        (lambda: Sum(1.0, 3), r"give \(3,\)"),  # type: ignore[arg-type]
        (lambda: Histogram(3.0), "edges must be a list"),  # type: ignore[arg-type]
        (lambda: Mean(1.0, population=0), "population"),
        (lambda: Histogram((1.0,)), "edges"),
        (lambda: Histogram((1.0, 1.0)), "edges"),
        (lambda: Covariance(math.inf), "bound"),
        (lambda: principal_components(np.zeros((2, 3)), 1), "square"),
        (lambda: principal_components(np.zeros((2, 2)), 3), "at most that many"),
    ],
)
def test_bad_queries(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("query", [Sum, Mean, Covariance])
def test_a_bound_whose_grid_would_be_rounded_is_refused(query: Any) -> None:
    """At 1.45e-317 the grid of a covariance was a third too fine, and a row moved it by 1.96 contributions."""
    for bound in (1.45e-317, 1e-130, 1e130, 1e308):
        with pytest.raises(InputError, match="a bound must be between"):
            query(bound)
    for bound in (2.0**-400, 2.0**400):
        (here, *_) = sums_of(query(bound), [(bound, bound, bound)], 2.0**-20)
        assert moved(here, sums_of(query(bound), [], 2.0**-20)[0]) <= 1
