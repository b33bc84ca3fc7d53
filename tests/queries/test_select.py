"""Searches: the number of trials has its law and stays secret; the winner has the law that is accounted for."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import betainc

from discreet.accounting.account import guarantee
from discreet.core.errors import BudgetExhausted, InputError, PrivacyViolation
from discreet.core.events import Gaussian, NoisyMax, Selection
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, Trials
from discreet.ledger import Budget, Ledger
from discreet.ledger.chain import told
from discreet.queries import select
from discreet.queries.best_trial import uniform_index
from discreet.queries.draws import check_drawable, draw_trials, exponentials
from discreet.randomness import Purpose, Stream, TestStream

FALSE_ALARM = 1e-9
LAWS: list[Trials] = [
    NegativeBinomialTrials(1.0, 0.2),
    NegativeBinomialTrials(0.0, 0.1),
    NegativeBinomialTrials(-0.5, 0.05),
    NegativeBinomialTrials(2.5, 0.3),
    PoissonTrials(0.7),
    PoissonTrials(9.0),
]


def probabilities(trials: Trials, most: int) -> Any:
    """P(K = 0 .. most), by SciPy where it knows the law."""
    k = np.arange(most + 1)
    match trials:
        case PoissonTrials(mean):
            return stats.poisson.pmf(k, mean)
        case NegativeBinomialTrials(0.0, success):
            return stats.logser.pmf(k, 1 - success)
        case NegativeBinomialTrials(shape, success) if shape > 0:
            masses = stats.nbinom.pmf(k, shape, success) / (1 - success**shape)
            return np.where(k > 0, masses, 0.0)
        case NegativeBinomialTrials(shape, success):
            ratios = np.concatenate([[1.0], (k[1:-1] + shape) / (k[1:-1] + 1) * (1 - success)])
            masses = np.concatenate([[0.0], np.cumprod(ratios)])
            every = np.cumprod([(j + shape) / (j + 1) * (1 - success) for j in range(1, 5000)]).sum() + 1
            return masses / every


@pytest.mark.parametrize("trials", LAWS, ids=str)
def test_the_number_of_trials_has_its_law(trials: Trials) -> None:
    """Chi-square over 0 .. 25 and the rest, false alarm 1e-9; a law with a tenth more success is found out."""
    stream = TestStream(8).substream(Purpose.NOISE, 0)
    drawn = np.array([draw_trials(trials, stream) for _ in range(20_000)])
    observed = np.bincount(np.minimum(drawn, 26), minlength=27)
    masses = probabilities(trials, 25)
    expected = np.concatenate([masses, [max(1 - masses.sum(), 0)]]) * len(drawn)
    keep = expected > 5
    observed, expected = observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()
    assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM
    assert stats.chisquare(np.roll(observed, 1), expected).pvalue < FALSE_ALARM
    assert drawn.mean() == pytest.approx(trials.mean, abs=6.5 * drawn.std() / math.sqrt(len(drawn)))


def response(candidate: int, stream: Stream) -> tuple[float, str]:
    """A toy trial: a randomised response, true with probability 3/4; the score is what it says."""
    said = bool(exponentials(stream.substream(Purpose.NOISE, 0), 1)[0] > math.log(4 / 3))
    return float(said), f"{candidate}{'yes' if said else 'no'}"


def test_the_winner_has_the_law_that_is_enumerated(accounts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """P(the best says no) = E[(1/4)^K], here for the geometric law; 600 searches, two-sided, false alarm 1e-9."""
    from discreet.queries import Account
    from discreet.queries.charging import Payment

    price = guarantee(Gaussian(1.0), 1e-6)
    account = accounts()
    payment = account.pay(Selection(NoisyMax(math.log(3)), LAWS[0]))
    seeds = iter(range(10**9))
    fresh = accounts(start=lambda _: TestStream(next(seeds)))
    monkeypatch.setattr(Account, "pay", lambda *_: Payment(payment.receipt, TestStream(next(seeds)), price))
    found = [select(response, range(3), NoisyMax(math.log(3)), LAWS[0], fresh) for _ in range(600)]
    success = 0.2
    none = 0.25 * success / (1 - 0.25 * (1 - success))
    nos = sum(one.result.endswith("no") for one in found)
    assert stats.binomtest(nos, 600, none).pvalue > FALSE_ALARM
    assert stats.binomtest(nos, 600, 0.25).pvalue < FALSE_ALARM, "as if there were one trial"
    assert {one.candidate for one in found} == {0, 1, 2}
    assert all(one.result.startswith(str(one.candidate)) for one in found)


def test_a_search_is_one_event_charged_before_it_starts_and_leaves_nothing_of_k(accounts: Any) -> None:
    """Whatever K was, the ledger has the same entries, none of which was written after the search began."""
    shapes = set()
    numbers = []
    for seed in range(12):
        account = accounts(1000 * seed)
        before = account.ledger.verify().entries
        calls: list[int] = []

        def trial(candidate: str, _stream: Stream, account: Any = account, calls: list[int] = calls) -> Any:
            calls.append(account.ledger.verify().entries)
            return 0.5, candidate

        found = select(trial, "ab", Gaussian(4.0), LAWS[0], account)
        numbers.append(len(calls))
        after = account.ledger.entries()
        assert {*calls, len(after)} == {before + 3}
        shapes.add(tuple((e.kind, str(told(e)), e.position, e.steps) for e in after[before:]))  # a salt has one length
        assert found.event == Selection(Gaussian(4.0), LAWS[0])
        assert found.guarantee == guarantee(found.event, 1e-6)
        assert not any(value == len(calls) for value in vars_of(found).values())
    assert len(set(numbers)) > 3
    assert len({tuple(part[0] for part in shape) for shape in shapes}) == len(shapes) == 1


def vars_of(found: Any) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__slots__}


def test_each_trial_has_randomness_of_its_own(accounts: Any) -> None:
    words: list[int] = []

    def trial(_candidate: int, stream: Stream) -> tuple[float, int]:
        words.append(int(stream.substream(Purpose.NOISE, 0).words(1)[0]))
        return 0.0, 0

    select(trial, [0], Gaussian(4.0), PoissonTrials(30), accounts())
    assert len(words) > 10
    assert len(set(words)) == len(words)


def test_edges(accounts: Any) -> None:
    scores = iter([math.nan, 2.0, 2.0, math.nan, 1.0, *[0.0] * 500])
    account = accounts()

    def trial(_candidate: int, _stream: Stream) -> tuple[float, float]:
        score = next(scores)
        return score, score

    found = select(trial, [0], Gaussian(4.0), PoissonTrials(30), account)
    assert (found.score, found.result) == (2.0, 2.0)
    only_nan = select(lambda c, _: (math.nan, "kept"), [7], Gaussian(4.0), NegativeBinomialTrials(1, 0.9), account)
    assert (only_nan.candidate, only_nan.score, only_nan.result) == (7, -math.inf, "kept")
    nothing = select(lambda *_: (1.0, 1), [7], Gaussian(4.0), PoissonTrials(1e-12), account)
    assert (nothing.candidate, nothing.score, nothing.result) == (None, -math.inf, None)


def test_a_trial_that_fails_ends_the_search_and_stays_charged(accounts: Any) -> None:
    account = accounts()

    def trial(_candidate: int, _stream: Stream) -> tuple[float, int]:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        select(trial, [0], Gaussian(4.0), NegativeBinomialTrials(1, 0.1), account)
    assert [entry.kind for entry in account.ledger.entries()] == ["run", "attempt", "reservation"]


def test_a_search_beyond_the_budget_does_not_start(accounts: Any, tmp_path: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("patients", Budget(0.5, 1e-5))
    with pytest.raises(BudgetExhausted):
        select(pytest.fail, [0], Gaussian(1.0), LAWS[0], accounts(ledger=ledger, dataset="patients"))


def test_bad_searches(accounts: Any) -> None:
    account = accounts()
    with pytest.raises(InputError, match="candidates"):
        select(response, [], Gaussian(1.0), LAWS[0], account)
    with pytest.raises(InputError, match="at most 600"):
        select(response, [0], Gaussian(1.0), PoissonTrials(601), account)
    with pytest.raises(InputError, match="law of their number"):
        select(response, [0], Gaussian(1.0), 3, account)  # type: ignore[arg-type]
    for law in (
        NegativeBinomialTrials(1.0, 1e-9),
        NegativeBinomialTrials(3.0, 1e-150),
        NegativeBinomialTrials(50, 1e-4),
    ):
        with pytest.raises(InputError, match="may draw more than 10000000 trials"):
            select(response, [0], Gaussian(1.0), law, account)
    assert account.ledger.verify().entries == 0


@pytest.mark.parametrize(
    ("trial", "said"),
    [
        (3, "trial must be a function of .candidate, stream., not an int"),
        (lambda candidate: (1.0, candidate), r"trial must take \(candidate, stream\) .* it takes \(candidate\)"),
    ],
)
def test_a_trial_that_cannot_be_called_is_refused_before_the_charge(trial: Any, said: str, accounts: Any) -> None:
    account = accounts()
    with pytest.raises(InputError, match=said):
        select(trial, [0], Gaussian(4.0), LAWS[0], account)
    with pytest.raises(InputError, match=r"by an account, .* not by a str"):
        select(response, [0], Gaussian(4.0), LAWS[0], "ledger.sqlite")  # type: ignore[arg-type]
    assert account.ledger.verify().entries == 0


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (77.0, r"must return a pair \(score, result\), not a float"),
        ((77.0, 1, 2), "must return a pair .* not a tuple"),
        (None, "must return a pair .* not a NoneType"),
        (("77", 1), "score of a trial must be a number, not a str"),
        ((77j, 1), "score of a trial must be a number, not a complex"),
        (([77.0], 1), "score of a trial must be a number, not a list"),
        ((np.array([77.0]), 1), "score of a trial must be a number, not a ndarray"),
        ((77 * 10**400, 1), "score of a trial must be a number, not an int"),
    ],
)
def test_a_score_that_is_no_number_ends_the_search_and_is_not_shown(returned: Any, said: str, accounts: Any) -> None:
    account = accounts()
    with pytest.raises(InputError, match=f"{said}; the search ended without a result, and stays charged") as refused:
        select(lambda *_: returned, [0], Gaussian(4.0), LAWS[0], account)
    assert "77" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    assert sum(entry.kind == "reservation" for entry in account.ledger.entries()) == 1


@pytest.mark.parametrize("score", [1, np.float32(1), np.array(1.0), torch.tensor(1.0), Fraction(1)], ids=repr)
def test_scores_are_numbers_of_any_kind(score: Any, accounts: Any) -> None:
    found = select(lambda *_: (score, "kept"), [0], Gaussian(4.0), NegativeBinomialTrials(1, 0.9), accounts())
    assert (found.score, found.result) == (1.0, "kept")


def test_no_law_runs_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.queries.draws._MOST_TRIALS", 5)
    stream = TestStream(8).substream(Purpose.NOISE, 0)  # P(K <= 5) = 0.005
    with pytest.raises(PrivacyViolation, match="more than 5 trials"):
        draw_trials(NegativeBinomialTrials(1, 0.001), stream)


@pytest.mark.parametrize("shape", [-0.99, -0.5, 1e-6, 0.7, 1.0, 4.0, 0.39])
def test_what_is_let_through_hardly_ever_runs_out(shape: float) -> None:
    """P(K > 10^7) of the heaviest laws that are drawn: for a shape above 0 by the incomplete beta function."""
    success = max(2e-6, shape / 1.99e5)
    check_drawable(NegativeBinomialTrials(shape, success))
    if shape > 0:
        beyond = betainc(10**7 + 1, shape, 1 - success) / -math.expm1(shape * math.log(success))
    else:
        beyond = (1 - success) ** (10**7 - 1)  # each further trial has a share of 1 - success at most
    assert beyond <= math.exp(-19.99)


def test_indices_are_uniform() -> None:
    stream = TestStream(2).substream(Purpose.NOISE, 0)
    counts = np.bincount([uniform_index(7, stream) for _ in range(20_000)], minlength=7)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
