"""One draw, one event, charged first."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.accounting.account import guarantee
from discreet.accounting.adaptive.filters import GaussianFilter
from discreet.core.adjacency import Adjacency, Query
from discreet.core.errors import BudgetExhausted, InputError, NotProved, RandomnessReuse
from discreet.core.events import BoundedRange, Compose, Event, Gaussian, Laplace, Poisson, Repeat
from discreet.ledger import Budget, Ledger
from discreet.queries import (
    Account,
    Choice,
    Count,
    Covariance,
    Histogram,
    Mean,
    Quantile,
    Sum,
    joint_event,
    release,
)
from discreet.queries.charging import Payment
from discreet.randomness import Purpose, SystemStream, TestStream

ROWS = np.random.default_rng(1).normal(size=(300, 4))
ALL: list[Any] = [Count(), Count(1, 0.0), Sum(1.0), Mean(2.0), Mean(2.0, 300), Histogram((-1, 0, 1)), Covariance()]
BOTH: list[Any] = [Count(), Sum(1.0)]


def test_two_queries_on_one_draw_are_one_event_and_cost_more_than_two_apart() -> None:
    """q = .01, 2,000 steps, delta 1e-5, sigma (1, 1): 3.72 if charged apart, which is wrong; 6.03 in truth."""
    joint = joint_event(BOTH, 1.0, rate=0.01)
    assert joint == Poisson(0.01, Compose((Gaussian(1.0, Query.COUNT), Gaussian(1.0))))
    apart = Compose(tuple(Poisson(0.01, part) for part in joint.event.events))  # type: ignore[union-attr]
    assert guarantee(Repeat(joint, 2000), 1e-5).epsilon == pytest.approx(6.03, abs=0.03)
    assert guarantee(Repeat(apart, 2000), 1e-5).epsilon == pytest.approx(3.72, abs=0.02)


def test_one_call_is_one_charge(accounts: Any) -> None:
    account = accounts()
    answers = release(ROWS, ALL, account, 3.0, rate=0.5)
    kinds = [entry.kind for entry in account.ledger.entries()]
    assert kinds == ["run", "attempt", "reservation", "release"]
    assert account.ledger.spent(answers.receipt.run) == Compose((Compose((Repeat(answers.event, 1),)),))
    assert answers.event == joint_event(ALL, 3.0, 0.5) == answers.receipt.event
    assert answers.guarantee == guarantee(answers.event, 1e-6)
    assert len(answers) == len(ALL)


def test_a_draw_cannot_be_answered_twice(accounts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reuses a payment for a second event on its draw gets neither the draw nor the noise again."""
    account = accounts()
    payment = account.pay(joint_event(BOTH, 1.0, 0.5))
    monkeypatch.setattr(Account, "pay", lambda *_: payment)
    release(ROWS, BOTH, account, 1.0, rate=0.5)
    for rate in (0.5, 1.0):
        with pytest.raises(RandomnessReuse):
            release(ROWS, BOTH, account, 1.0, rate=rate)


def test_every_charge_is_a_draw_of_its_own(accounts: Any) -> None:
    account = accounts(start=lambda i: SystemStream.start(bytes(32), i))
    one, two = (release(ROWS, [Sum(1.0)], account, 1.0) for _ in range(2))
    assert one.receipt.run != two.receipt.run
    assert not np.isin(one[0], two[0]).any()


class Watching:
    """A stream that looks into the ledger when something is drawn."""

    kind = "test"

    def __init__(self, path: Path) -> None:
        self.path, self.seen, self.inner = path, [], TestStream(0)  # type: ignore[var-annotated]

    def substream(self, purpose: Purpose, step: int) -> Any:
        ledger = Ledger(self.path, create=False)
        self.seen.append([entry.kind for entry in ledger.entries()])
        ledger.close()
        return self.inner.substream(purpose, step)


def test_the_charge_is_durable_before_anything_is_drawn(accounts: Any, tmp_path: Path) -> None:
    stream = Watching(tmp_path / "ledger.sqlite")
    release(ROWS, BOTH, accounts(start=lambda _: stream), 1.0, rate=0.5)
    assert stream.seen == [["run", "attempt", "reservation"]] * 2  # the draw, the noise


def test_a_budget_is_kept(accounts: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_budget("patients", Budget(1.0, 1e-5))
    account = accounts(ledger=ledger, dataset="patients")
    assert release(ROWS, BOTH, account, epsilon=0.6).guarantee.epsilon <= 0.6
    before = ledger.verify()
    with pytest.raises(BudgetExhausted, match="nothing was charged"):
        release(ROWS, BOTH, account, epsilon=0.6)
    assert ledger.verify() == before
    assert 0.39 < release(ROWS, BOTH, account, epsilon=0.399).guarantee.epsilon <= 0.399


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_the_number_of_rows_enters_nothing_but_the_answers(accounts: Any, rate: float) -> None:
    """Same event, price and noise whatever the length; the noise is what an answer has on no rows."""
    noises = []
    for size in (0, 1, 300):
        rows = np.zeros((size, 4))
        answers = release(rows, [Sum(1.0), Covariance()], accounts(7), 2.0, rate=rate)
        noises.append(answers)
    for other in noises[1:]:
        assert (other.event, other.guarantee) == (noises[0].event, noises[0].guarantee)
        assert all(np.array_equal(a, b) for a, b in zip(other, noises[0], strict=True))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_unusable_row_contributes_zero_to_every_query(accounts: Any, bad: float) -> None:
    rows = np.insert(ROWS, 17, ROWS[0], axis=0)
    rows[17, 2] = bad
    queries = [*ALL, Quantile(0.5, -3, 3, 1.0), Choice("ab", lambda x: np.array([len(x), 0.0]), 1.0, 1.0)]
    with_bad, without = (release(data, queries, accounts(3), 1.0) for data in (rows, ROWS))
    assert all(np.array_equal(a, b) for a, b in zip(with_bad, without, strict=True))


def test_sums_over_a_sample_estimate_all_rows(accounts: Any) -> None:
    """200,000 rows at rate .3: std of the count 683 (and of the noise 33). False alarm 1e-9 at 6.2 std."""
    rows = np.ones((200_000, 1))
    count, total, mean = release(rows, [Count(), Sum(1.0), Mean(1.0)], accounts(), 10.0, rate=0.3)
    assert abs(count - 200_000) < 6.2 * 700
    assert abs(total[0] - count) < 6.2 * 70
    assert mean[0] == pytest.approx(1.0, abs=0.002)
    assert abs(count - 200_000) > 100, "nothing was left out"


def test_answers_cannot_be_changed(accounts: Any) -> None:
    answers = release(ROWS, BOTH, accounts(), 1.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        answers.event = Gaussian(9.0)  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        answers[1][0] = 0


def test_choices_and_sums_share_an_event(accounts: Any) -> None:
    answers = release(ROWS, [Quantile(0.5, -1, 1, 0.4), Count()], accounts(), 8.0)
    assert answers.event == Compose((BoundedRange(0.4), Gaussian(8.0, Query.COUNT)))
    assert len(answers.assumptions) == 2
    only = release(ROWS, [Quantile(0.5, -1, 1, 0.4)], accounts())
    assert only.event == BoundedRange(0.4)
    assert only.guarantee.epsilon <= 0.4
    assert "Gumbel" in only.assumptions[0]


def test_what_is_not_proved_is_refused_before_the_charge(accounts: Any) -> None:
    account = accounts()
    with pytest.raises(NotProved, match="on one Poisson draw"):
        release(ROWS, [Quantile(0.5, -1, 1, 0.4), Count()], account, 8.0, rate=0.1)
    with pytest.raises(NotProved, match="replace_one"):
        release(ROWS, [Count()], accounts(adjacency="replace_one"), 8.0, rate=0.1)
    assert account.ledger.verify().entries == 0


def failing(_rows: Any) -> Any:
    return np.zeros(3)


@pytest.mark.parametrize(
    ("data", "queries", "facts", "message"),
    [
        (ROWS, [], {"multipliers": 1.0}, "no query"),
        (ROWS, [Count], {"multipliers": 1.0}, "not a query"),
        (ROWS, Count(), {"multipliers": 1.0}, "queries must be a list"),
        (ROWS, BOTH, {"multipliers": np.array(1.0)}, "a number or a list"),
        (ROWS, BOTH, {"multipliers": {1.0, 2.0}}, "a number or a list"),
        ([[10**400]], BOTH, {"multipliers": 1.0}, "an array of numbers"),
        (np.array(["2024-01-01", "NaT"], "datetime64[D]"), BOTH, {"multipliers": 1.0}, "an array of numbers"),
        (np.ma.masked_values([1.0, 9.0], 9.0), BOTH, {"multipliers": 1.0}, "data has masked values"),
        (ROWS, BOTH, {}, "say how much noise"),
        (ROWS, BOTH, {"multipliers": 1.0, "epsilon": 1.0}, "not both"),
        (ROWS, BOTH, {"multipliers": [1.0]}, "each of the 2 sums, not 1"),
        (ROWS, BOTH, {"multipliers": [1.0, 0.0]}, "multiplier must be"),
        (ROWS, BOTH, {"multipliers": [1.0, math.nan]}, "multiplier must be"),
        (ROWS, BOTH, {"multipliers": 1e-9}, "protects nobody"),
        (ROWS, BOTH, {"multipliers": "20"}, "multiplier must be"),
        (ROWS, BOTH, {"multipliers": 1.0, "rate": 0.0}, "rate"),
        (ROWS, [Quantile(0.5, 0, 1, 1.0)], {"epsilon": 1.0}, "bring their own epsilon"),
        (ROWS, [Sum(1.0, (4,))], {"multipliers": 1.0}, "no column 4"),
        (ROWS, [Quantile(0.5, 0, 1, 1.0, column=9)], {}, "no column 9"),
        (ROWS, [Choice("ab", failing, 1.0, 1.0)], {}, "one number per candidate"),
        (ROWS, [Covariance()], {"multipliers": 2.0**30}, "noise multiplier between"),
        (ROWS, [Histogram((0.0, 1.0))], {"multipliers": 2.0**51}, "too large for the grid"),
        (ROWS, [Sum(2.0**400)], {"multipliers": 1e300}, "too large for the grid"),
        ([["a"]], BOTH, {"multipliers": 1.0}, "array of numbers"),
        ([[np.float32(0.1)], ["3"]], BOTH, {"multipliers": 1.0}, "array of numbers"),  # "0.1" is another number
        (ROWS + 1j, BOTH, {"multipliers": 1.0}, "array of numbers"),
        (np.zeros((2, 2, 2)), BOTH, {"multipliers": 1.0}, "3 axes"),
    ],
)
def test_bad_requests_are_refused_before_the_charge(
    accounts: Any, data: Any, queries: list[Any], facts: dict[str, Any], message: str
) -> None:
    account = accounts()
    with pytest.raises(InputError, match=message):
        release(data, queries, account, **facts)
    assert account.ledger.verify().entries == 0


def test_queries_may_come_one_by_one_and_are_paid_for_by_an_account(accounts: Any) -> None:
    assert len(release(ROWS, (query for query in BOTH), accounts(), 1.0)) == 2  # type: ignore[arg-type]
    with pytest.raises(InputError, match="paid for by an account"):
        release(ROWS, BOTH, None, 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"noise": "loud"}, "unknown noise 'loud'; known: fast, exact"),
        ({"start": 3}, "start makes the stream of an attempt from its number, and cannot be an int"),
        ({"adjacency": "swap"}, "unknown adjacency"),
        ({"method": "magic"}, "unknown method"),
        ({"ledger": 3}, "ledger must be"),
    ],
)
def test_bad_accounts(accounts: Any, facts: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        accounts(**facts)


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_price_is_that_of_the_adjacency(accounts: Any, adjacency: Adjacency) -> None:
    """sigma_eff^-2 = sum of (ratio / sigma)^2: count 1, sum 2 and histogram sqrt 2 under replace_one."""
    account = accounts(adjacency=adjacency)
    found = release(ROWS, [Count(), Sum(1.0), Histogram((0, 1))], account, [3.0, 4.0, 5.0]).guarantee
    ratios = (1, 2, math.sqrt(2)) if adjacency is Adjacency.REPLACE_ONE else (1, 1, 1)
    joint = sum((r / s) ** 2 for r, s in zip(ratios, (3, 4, 5), strict=True)) ** -0.5
    assert found.epsilon == pytest.approx(guarantee(Gaussian(joint), 1e-6).epsilon, rel=1e-9)
    assert found.adjacency is adjacency


def test_an_event_without_a_finite_price_is_not_paid(accounts: Any) -> None:
    event: Event = Poisson(0.5, Gaussian(1e-160))
    account = accounts(delta=1e-5)
    with pytest.raises(NotProved, match="no finite epsilon"):
        account.pay(event)
    assert account.ledger.verify().entries == 0


def test_a_query_that_the_budget_has_no_price_for_is_not_opened(accounts: Any) -> None:
    account = accounts(dataset="people", method="rdp")
    account.ledger.set_budget("people", GaussianFilter(1.0, 1e-6))
    with pytest.raises(NotProved, match="the gdp budget of data set 'people' has no price for this run"):
        account.pay(Laplace(3.0))
    assert account.ledger.budget("people")[1].runs == 0
    account.pay(Gaussian(3.0))


def test_a_payment_holds_what_was_charged(accounts: Any) -> None:
    payment = accounts().pay(Gaussian(2.0))
    assert isinstance(payment, Payment)
    assert payment.receipt.event == Gaussian(2.0)
    assert payment.receipt.position == 0


@pytest.mark.parametrize("multiplier", [2.0**-20, 2.0**31, 2.0**32 + 1, 2.0**49])
@pytest.mark.parametrize(
    "query", [Count(), Histogram((0.0, 1.0)), Sum(1.0), Mean(2.0)], ids=lambda one: type(one).__name__
)
def test_no_rows_end_a_query_that_others_do_not(query: Any, multiplier: float, accounts: Any) -> None:
    """Whether it is answered follows from query and noise, at noise beyond all use too."""
    account = accounts(delta=0.5, method="rdp")
    for rows in (ROWS[:0], ROWS[:1], ROWS[:2], np.full((3, 4), 1e308), np.full((3, 4), 1e-320)):
        assert len(release(rows, [query], account, multiplier)) == 1
