"""Filters over steps in the ledger: what runs reserve together stays within the budget, whoever asks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from ledgers import PLAN, STEP, guarantee, sql

from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.filter_decision import propose
from discreet.accounting.adaptive.filter_fit import curve_filter, gaussian_filter, order_filter, zcdp_filter
from discreet.accounting.adaptive.filters import Filter, GaussianFilter, ZcdpFilter, as_dict
from discreet.core.adjacency import Adjacency
from discreet.core.errors import BudgetExhausted, InputError, LedgerError, NotProved
from discreet.core.events import Compose, Event, Gaussian, Repeat
from discreet.ledger import Budget, Ledger, sqlite_file
from discreet.ledger.chain import next_entry

COURSE = Repeat(STEP, 100)
PLAIN = Gaussian(10.0)
FILTERS: list[tuple[Filter, Event]] = [
    (order_filter(COURSE, 2.0, 1e-5), STEP),
    (curve_filter(COURSE, 2.0, 1e-5), STEP),
    (zcdp_filter(2.0, 1e-5), PLAIN),
    (gaussian_filter(2.0, 1e-5), PLAIN),
]
names = [budget.kind for budget, _ in FILTERS]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.sqlite")
    yield opened
    opened.close()


def open_run(ledger: Ledger, dataset: str = "patients", own: Filter | None = None) -> tuple[str, int]:
    run = ledger.open_run(PLAN, guarantee(50.0), dataset, own)
    return run, ledger.start_attempt(run, PLAN)


@pytest.mark.parametrize(("budget", "event"), FILTERS, ids=names)
def test_runs_share_a_budget_block_by_block(ledger: Ledger, tmp_path: Path, budget: Filter, event: Event) -> None:
    """Two runs, in two processes as it were; what is spent is the cost of all events, to the last bit."""
    ledger.set_budget("patients", budget)
    other = Ledger(tmp_path / "ledger.sqlite")
    runs = [(ledger, *open_run(ledger)), (other, *open_run(other)), (ledger, *open_run(ledger, "staff"))]
    charged, sizes = [0, 0, 0], (7, 3, 11)
    for turn in range(300):
        each = turn % 3
        opened, run, attempt = runs[each]
        if each == 2 and turn > 30:
            continue  # a run on another data set does not count
        try:
            opened.reserve(run, attempt, lambda _, size=sizes[each]: [event] * size)  # type: ignore[misc]
        except BudgetExhausted:
            assert each < 2
            break
        assert turn < 299, "nothing was ever refused"
        charged[each] += sizes[each]
    limit, spent = other.budget("patients")
    assert limit == budget
    assert spent.amounts == budget.cost(Repeat(event, charged[0] + charged[1]))
    assert spent.runs == 2
    assert spent.share is not None
    assert 0.75 < spent.share <= 1
    assert not propose(budget, spent.amounts, Repeat(event, sizes[each])).admitted
    assert ledger.budget("patients")[1] == spent
    fresh = Ledger(tmp_path / "ledger.sqlite")
    assert fresh.budget("patients")[1] == spent
    for opened in (fresh, other):
        opened.close()


def test_a_refusal_writes_nothing_and_a_smaller_block_may_still_fit(ledger: Ledger) -> None:
    ledger.set_budget("patients", GaussianFilter(0.1, 1e-5))
    run, attempt = open_run(ledger)
    ledger.reserve(run, attempt, lambda _: [PLAIN] * 8)
    before = ledger.verify()
    with pytest.raises(BudgetExhausted, match="80"):
        ledger.reserve(run, attempt, lambda _: [PLAIN] * 3)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(run, attempt, lambda _: [Gaussian(1e-200)])
    with pytest.raises(NotProved, match="no exact mu"):
        ledger.reserve(run, attempt, lambda _: [STEP])
    assert ledger.verify() == before
    ledger.reserve(run, attempt, lambda _: [PLAIN])
    assert ledger.charged_steps(run) == 9


def test_what_a_run_did_not_reserve_is_left_to_others(ledger: Ledger) -> None:
    """A run that stops early costs its blocks, not its plan; a basic budget charges it whole."""
    ledger.set_budget("patients", GaussianFilter(0.1, 1e-5))
    first, second = open_run(ledger), open_run(ledger)
    ledger.reserve(*first, lambda _: [PLAIN] * 2)
    ledger.reserve(*second, lambda _: [PLAIN] * 7)
    assert ledger.budget("patients")[1].share == pytest.approx(0.9)


def test_a_run_may_have_a_filter_of_its_own(ledger: Ledger) -> None:
    ledger.set_budget("patients", GaussianFilter(0.1, 1e-5))
    run, attempt = open_run(ledger, own=ZcdpFilter(0.02, 1e-6))  # four of its steps
    ledger.reserve(run, attempt, lambda _: [PLAIN] * 3)
    with pytest.raises(BudgetExhausted, match=f"zcdp budget of run {run[:8]}"):
        ledger.reserve(run, attempt, lambda _: [PLAIN])
    run, attempt = open_run(ledger, own=ZcdpFilter(1.0, 1e-6))
    ledger.reserve(run, attempt, lambda _: [PLAIN] * 6)
    with pytest.raises(BudgetExhausted, match="gdp budget of data set 'patients'"):
        ledger.reserve(run, attempt, lambda _: [PLAIN])
    run, attempt = open_run(ledger, dataset="", own=ZcdpFilter(0.02, 1e-6))
    ledger.reserve(run, attempt, lambda _: [PLAIN] * 3)
    with pytest.raises(BudgetExhausted):
        ledger.reserve(run, attempt, lambda _: [PLAIN])


def test_a_filter_that_does_not_count_steps_or_means_others_is_refused(ledger: Ledger) -> None:
    for own in (Budget(1.0, 1e-5), ZcdpFilter(1.0, 1e-5, Adjacency.REPLACE_ONE)):
        with pytest.raises(InputError):
            open_run(ledger, own=own)
    ledger.set_budget("patients", ZcdpFilter(1.0, 1e-5, Adjacency.ZERO_OUT))
    with pytest.raises(InputError, match="do not add up"):
        open_run(ledger)


def test_a_filter_over_steps_is_fixed_before_the_first_run(ledger: Ledger) -> None:
    ledger.set_budget("patients", ZcdpFilter(1.0, 1e-5))
    ledger.set_budget("patients", ZcdpFilter(0.5, 1e-5))
    open_run(ledger)
    before = ledger.verify()
    for other in (ZcdpFilter(1.0, 1e-5), GaussianFilter(1.0, 1e-5), Budget(9.0, 1e-4)):
        with pytest.raises(InputError, match="before the first"):
            ledger.set_budget("patients", other)
    assert ledger.verify() == before
    ledger.set_budget("patients", ZcdpFilter(0.5, 1e-5))  # the same changes nothing
    ledger.set_budget("staff", Budget(100.0, 1e-4))
    open_run(ledger, "staff")
    with pytest.raises(InputError, match="before the first"):
        ledger.set_budget("staff", ZcdpFilter(1.0, 1e-5))


def test_a_reservation_that_vanished_or_grew_is_found(ledger: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger.set_budget("patients", GaussianFilter(0.1, 1e-5))
    first, second = open_run(ledger), open_run(ledger)
    for _ in range(2):
        ledger.reserve(*first, lambda _: [PLAIN] * 2)
        ledger.reserve(*second, lambda _: [PLAIN])
    rows = sql(path, "SELECT number FROM discreet_entries WHERE kind = 'reservation' AND run = ?", first[0])
    sql(path, "DELETE FROM discreet_entries WHERE number = ?", rows[0][0])
    fresh = Ledger(path)
    with pytest.raises(LedgerError, match="cut"):
        fresh.reserve(*second, lambda _: [PLAIN])
    sql(path, "UPDATE discreet_entries SET body = replace(body, '10.0', '1000.0') WHERE number = ?", rows[1][0])
    with pytest.raises(LedgerError, match="edited"):
        fresh.budget("patients")
    fresh.close()


def test_a_ledger_of_before_filters_is_read_as_basic(ledger: Ledger, tmp_path: Path) -> None:
    """Its budgets do not name their filter."""
    ledger.set_budget("patients", Budget(3.0, 1e-5))
    body = json.loads(sql(tmp_path / "ledger.sqlite", "SELECT body FROM discreet_entries")[0][0])
    assert body.pop("filter") == "basic"
    old = next_entry(None, "budget", body, dataset="patients")
    for name in ("body", "hash", "at"):
        sql(tmp_path / "ledger.sqlite", f"UPDATE discreet_entries SET {name} = ?", getattr(old, name))
    assert ledger.budget("patients")[0] == Budget(3.0, 1e-5)
    assert ledger.verify().entries == 1
    ledger.open_run(PLAN, guarantee(2.0), "patients")
    with pytest.raises(BudgetExhausted):
        ledger.open_run(PLAN, guarantee(2.0), "patients")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.data())
def test_ledger_and_filter_agree_to_the_last_bit(ledger: Ledger, data: st.DataObject) -> None:
    """Random policies over several runs: each decision of the ledger is the filter's on the list of events."""
    budget, event = data.draw(st.sampled_from(FILTERS))
    dataset = f"data {ledger.verify().entries}"
    ledger.set_budget(dataset, budget)
    runs = [open_run(ledger, dataset) for _ in range(2)]
    noises = [event, Gaussian(data.draw(st.floats(1.0, 30.0)))]
    released: list[Event] = []
    for _ in range(data.draw(st.integers(1, 8))):
        block = [data.draw(st.sampled_from(noises))] * data.draw(st.integers(1, 30))
        together = budget.cost(Compose((*released, *block)))
        try:
            ledger.reserve(*data.draw(st.sampled_from(runs)), lambda _, block=block: block)  # type: ignore[misc]
        except BudgetExhausted:
            assert any(amount > limit for amount, limit in zip(together, budget.limits, strict=True))
        else:
            assert all(amount <= limit for amount, limit in zip(together, budget.limits, strict=True))
            released += block
            assert ledger.budget(dataset)[1].amounts == together
    exact = [sum(map(Fraction, amounts)) for amounts in zip(*(budget.cost(one) for one in released), strict=True)]
    amounts = ledger.budget(dataset)[1].amounts
    assert [Fraction(amount) for amount in amounts] == (exact or [0] * len(amounts))
    assert all(math.isfinite(amount) for amount in amounts)
    assert ledger.budget(dataset)[0] == budget
    assert as_dict(budget)["filter"] == budget.kind


@pytest.mark.parametrize("budget", [GaussianFilter(0.1, 1e-5), ZcdpFilter(0.1, 1e-5)], ids=["gdp", "zcdp"])
def test_a_run_that_the_budget_has_no_price_for_is_not_opened(ledger: Ledger, budget: Filter) -> None:
    """Else nothing could ever be charged, and the budget could not be changed any more."""
    ledger.set_budget("patients", budget)
    with pytest.raises(NotProved, match=f"the {budget.kind} budget of data set 'patients' has no price for this run"):
        ledger.open_run(PLAN, guarantee(1.0), "patients", event=Repeat(STEP, 3))
    with pytest.raises(NotProved, match=f"the {budget.kind} budget of data set 'patients' has no price for this run"):
        ledger.check_room(guarantee(1.0), "patients", event=Repeat(STEP, 3))
    assert [entry.kind for entry in ledger.entries()] == ["budget"]
    ledger.set_budget("patients", curve_filter(COURSE, 2.0, 1e-5))
    ledger.check_room(guarantee(1.0), "patients", event=Repeat(STEP, 3))
    ledger.open_run(PLAN, guarantee(1.0), "patients", event=Repeat(STEP, 3))


def test_nobody_waits_while_the_room_for_a_run_is_priced(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan with a thousand phases of noise is priced in seconds, and by `open_run` from what is known then."""
    budget = curve_filter(COURSE, 2.0, 1e-5)
    ledger.set_budget("patients", budget)
    monkeypatch.setattr(sqlite_file, "PATIENCE_SECONDS", 0.2)
    real = type(budget).cost

    def slowly(priced: Any, event: Event) -> Amounts:
        other = Ledger(ledger.where)
        other.set_budget("others", budget)  # as another process may
        other.close()
        return real(priced, event)

    monkeypatch.setattr(type(budget), "cost", slowly)
    ledger.check_room(guarantee(1.0), "patients", event=Repeat(STEP, 3))
    assert sorted(ledger.budgets()) == ["others", "patients"]
