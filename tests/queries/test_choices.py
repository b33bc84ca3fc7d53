"""Choices: their noise has its law, their probabilities stay within the range that was charged."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from discreet.core.adjacency import Adjacency, Query, sensitivity_ratio
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.events import BoundedRange, NoisyMax
from discreet.queries import Choice, Quantile, release
from discreet.queries.choices import noisy_argmax
from discreet.queries.draws import exponentials, gumbels, laplaces
from discreet.queries.rows import usable
from discreet.randomness import Purpose, Substream, TestStream

FALSE_ALARM = 1e-9
SCORES = np.array([0.0, 1.5, 1.0, -2.0, 1.4])
DRAWS = 20_000


def substream(seed: int) -> Substream:
    return TestStream(seed).substream(Purpose.NOISE, 0)


def softmax(scores: Any) -> Any:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def permute_and_flip(scores: Any) -> Any:
    """By enumeration: in random order, accept with probability e^(score - best)."""
    accept = np.exp(scores - scores.max())
    result = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for i in order:
            result[i] += reached * accept[i] / len(orders)
            reached *= 1 - accept[i]
    return result


def laplace_max(scores: Any) -> Any:
    """By quadrature of density times the distribution functions of the others."""

    def integrand(x: float, i: int) -> float:
        others = stats.laplace.cdf(x - np.delete(scores, i)).prod()
        return float(stats.laplace.pdf(x - scores[i]) * others)

    return np.array([integrate.quad(integrand, -30, 30, args=(i,), points=list(scores))[0] for i in range(len(scores))])


LAWS: dict[str, Callable[[Any], Any]] = {
    "gumbel": softmax,
    "exponential": permute_and_flip,
    "laplace": laplace_max,
}


def fits(counts: Any, law: Any) -> bool:
    return bool(stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > FALSE_ALARM)


@pytest.mark.parametrize("noise", list(LAWS))
def test_choices_have_their_law(noise: str) -> None:
    """Chi-square, false alarm 1e-9; choices at nine tenths of the noise would be found out."""
    stream, law = substream(3), LAWS[noise]
    counts = np.bincount([noisy_argmax(SCORES, noise, stream) for _ in range(DRAWS)], minlength=len(SCORES))
    assert law(SCORES).sum() == pytest.approx(1)
    assert fits(counts, law(SCORES))
    assert not fits(counts, law(SCORES / 0.9))


@pytest.mark.parametrize(
    ("draw", "law"), [(exponentials, stats.expon), (gumbels, stats.gumbel_r), (laplaces, stats.laplace)]
)
def test_noise_has_its_law(draw: Callable[[Substream, int], Any], law: Any) -> None:
    values = draw(substream(4), 50_000)
    assert stats.kstest(values, law.cdf).pvalue > FALSE_ALARM
    assert stats.kstest(values * 0.9, law.cdf).pvalue < FALSE_ALARM


class Words:
    """A substream of given words."""

    def __init__(self, *words: int) -> None:
        self.given = np.array(words, np.uint64)

    def words(self, _count: int) -> Any:
        return self.given


def test_the_ends_of_the_stream_are_finite_and_precise() -> None:
    edge = (0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1)
    exact = [-math.log1p(-(w + 0.5) / 2**64) if w < 2**63 else -math.log((2**64 - w - 0.5) / 2**64) for w in edge]
    assert exponentials(Words(*edge), 6) == pytest.approx(exact, rel=1e-15)  # type: ignore[arg-type]
    assert np.isfinite(gumbels(Words(*edge), 6)).all()  # type: ignore[arg-type]


values = st.one_of(st.integers(-1, 11).map(float), st.just(math.nan))


@pytest.mark.parametrize("adjacency", list(Adjacency))
@settings(max_examples=150, derandomize=True)
@given(
    column=st.lists(values, min_size=1, max_size=7),
    other=values,
    q=st.sampled_from([0.01, 0.25, 0.5, 0.9]),
    epsilon=st.floats(0.1, 3),
)
def test_a_quantile_keeps_to_its_range_between_neighbours(
    adjacency: Adjacency, column: list[float], other: float, q: float, epsilon: float
) -> None:
    """Exact log-probabilities of all grid points. The event holds under any adjacency, whichever it was made for."""
    query = Quantile(q, 0, 10, epsilon, points=11)
    changed = {
        Adjacency.ADD_REMOVE: column[1:],
        Adjacency.ZERO_OUT: [math.nan, *column[1:]],
        Adjacency.REPLACE_ONE: [other, *column[1:]],
    }
    for made_for in Adjacency:
        event = query.event(made_for)
        scores = [
            query.scores(usable(np.array(rows).reshape(-1, 1)), made_for) for rows in (column, changed[adjacency])
        ]
        loss = (scores[0] - scores[0].max()) - (scores[1] - scores[1].max())
        assert np.ptp(loss) <= event.epsilon * sensitivity_ratio(event.query, adjacency) * (1 + 1e-9)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.8])
def test_the_range_of_a_quantile_is_reached(q: float) -> None:
    """So nothing smaller may be charged: by a row added beyond the quantile, and by one moved from end to end."""
    query = Quantile(q, 0, 10, 1.0, points=11)
    rows = np.repeat(np.arange(11.0), 20)[:, np.newaxis]

    def scores(more: float, adjacency: Adjacency) -> Any:
        return query.scores(np.append(rows, [[more]], axis=0), adjacency)

    replaced = scores(-1.0, Adjacency.REPLACE_ONE) - scores(11.0, Adjacency.REPLACE_ONE)
    assert np.ptp(replaced) == pytest.approx(1.0)
    added = scores(-0.5 if q < 0.5 else 9.5, Adjacency.ADD_REMOVE) - query.scores(rows, Adjacency.ADD_REMOVE)
    assert np.ptp(added) == pytest.approx(1.0)


def test_quantiles_are_near(accounts: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(20_000, 1))
    rows[:100] = math.nan
    found = release(rows, [Quantile(q, -5, 5, 1.0) for q in (0.05, 0.5, 0.95)], accounts())
    assert np.allclose(found.values, stats.norm.ppf([0.05, 0.5, 0.95]), atol=0.06)
    assert found.event.events == (BoundedRange(1.0),) * 3  # type: ignore[union-attr]
    assert release(rows[:0], [Quantile(0.5, -5, 5, 1.0)], accounts())[0] in np.linspace(-5, 5, 1001)
    replaced = release(rows, [Quantile(0.5, -5, 5, 1.0)], accounts(adjacency="replace_one"))
    assert replaced.event == BoundedRange(1.0, Query.COUNT)
    assert replaced.guarantee.epsilon <= 1.0


def tally(rows: Any) -> Any:
    return np.array([np.count_nonzero(rows[:, 0] == value) for value in (0, 1, 2)], float)


@pytest.mark.parametrize("noise", list(LAWS))
def test_a_choice_picks_a_good_candidate(accounts: Any, noise: str) -> None:
    rows = np.repeat([0.0, 1.0, 1.0, 1.0, 2.0], 40)
    query = Choice(("red", "green", "blue"), tally, 1.0, 1.0, one_sided=True, noise=noise)
    found = release(rows, [query], accounts())
    assert found[0] == "green"
    assert found.event == (BoundedRange(1.0) if noise == "gumbel" else NoisyMax(1.0))


def test_one_sided_scores_get_half_the_noise() -> None:
    rows = np.zeros((6, 1))
    two, one = (Choice("abc", tally, 1.5, 0.4, one_sided=side) for side in (False, True))
    assert np.array_equal(2 * two.scores(rows, Adjacency.ADD_REMOVE), one.scores(rows, Adjacency.ADD_REMOVE))
    assert two.scores(rows, Adjacency.ADD_REMOVE)[0] == pytest.approx(6 * 0.4 / (2 * 1.5))


def test_huge_scores_do_not_drown_the_noise() -> None:
    stream = substream(5)
    chosen = [noisy_argmax(SCORES + 2.0**40, "gumbel", stream) for _ in range(2000)]
    assert fits(np.bincount(chosen, minlength=5), softmax(SCORES))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_scores_that_are_no_numbers_release_nothing(bad: float) -> None:
    with pytest.raises(PrivacyViolation, match="not finite"):
        noisy_argmax(np.array([0.0, bad]), "gumbel", substream(0))


def test_what_a_score_says_of_private_rows_when_it_fails_is_not_shown(accounts: Any) -> None:
    def failing(rows: np.ndarray, error: type[BaseException]) -> np.ndarray:
        if len(rows):
            raise error(f"cannot take {rows[0, 0]}")
        return np.zeros(2)

    def of_each_row(rows: np.ndarray) -> np.ndarray:
        return np.zeros(len(rows) or 2)

    account = accounts()
    kinds = ValueError, SystemExit, PrivacyViolation, InputError  # those of the library, too: a score may raise them
    for score in (*(partial(failing, error=kind) for kind in kinds), of_each_row):
        with pytest.raises(PrivacyViolation, match="failed on the private rows") as refused:
            release([[1234.0], [1.0], [1.0]], [Choice("ab", score, 1.0, 1.0)], account)
        assert "1234" not in str(refused.value)
        assert "3" not in str(refused.value)  # rows
    assert sum(entry.kind == "reservation" for entry in account.ledger.entries()) == 5


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (lambda rows: [rows.max(), 0.0], r"fails on an array without rows, .* \(ValueError: zero-size array"),
        (lambda rows: ["a", "b"], "without rows, .* could not convert string to float"),
        (lambda rows: [1j, 0.0], "without rows, .*TypeError"),
        (lambda rows: None, "score must give one number per candidate"),
    ],
)
def test_a_score_that_fails_without_rows_is_refused_before_the_charge(score: Any, said: str, accounts: Any) -> None:
    account = accounts()
    with pytest.raises(InputError, match=said):
        release([[1234.0]], [Choice("ab", score, 1.0, 1.0)], account)
    assert account.ledger.verify().entries == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Choice([], tally, 1.0, 1.0), "candidates must not be empty"),
        (lambda: Choice({1, 2}, tally, 1.0, 1.0), "in an order, not a set"),  # type: ignore[arg-type]
        (lambda: Choice({1: 2}, tally, 1.0, 1.0), "in an order, not a dict"),  # type: ignore[arg-type]
        (lambda: Choice(iter("ab"), tally, 1.0, 1.0), "in an order"),  # type: ignore[arg-type]
        (lambda: Choice(np.zeros(()), tally, 1.0, 1.0), "in an order"),  # type: ignore[arg-type]
        (lambda: Choice("ab", 3, 1.0, 1.0), "score must be a function of the rows, not an int"),  # type: ignore[arg-type]
        (lambda: Choice("ab", tally, 1.0, 1.0, one_sided="no"), "one_sided must be True or False"),  # type: ignore[arg-type]
        (lambda: Choice("ab", tally, 1.0, 1.0, noise=[]), "unknown noise"),  # type: ignore[arg-type]
        (lambda: Choice("ab", tally, 0.0, 1.0), "sensitivity"),
        (lambda: Choice("ab", tally, "1", 1.0), "sensitivity must be a number"),  # type: ignore[arg-type]
        (lambda: Choice("ab", tally, 1.0, math.inf), "epsilon"),
        (lambda: Choice("ab", tally, 5e-324, 3.0), "at full precision"),  # its noise would be rounded
        (lambda: Choice("ab", tally, 1.0, 1.0, noise="normal"), "unknown noise 'normal'; known: gumbel"),
        (lambda: Quantile(1.0, 0, 1, 1.0), "q must be"),
        (lambda: Quantile(0.5, 1, 1, 1.0), "low below high"),
        (lambda: Quantile(0.5, 0, math.inf, 1.0), "must be finite"),
        (lambda: Quantile(0.5, 0, 1, 1.0, points=1), "points"),
    ],
)
def test_bad_choices(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_score_that_sorts_its_rows_leaves_them_as_they_are() -> None:
    """What is asked next of the same rows had its sums over others: one row moved them by several bounds."""

    def score(rows: Any) -> Any:
        rows.sort(axis=0)
        return np.zeros(2)

    rows = np.array([[2.0, 1.0], [1.0, 2.0]])
    Choice(("a", "b"), score, sensitivity=1.0, epsilon=1.0).scores(rows, Adjacency.ADD_REMOVE)
    assert rows.tolist() == [[2.0, 1.0], [1.0, 2.0]]
