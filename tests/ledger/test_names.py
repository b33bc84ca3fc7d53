"""A data set has one name, however it is typed, and keeps the budget that was stored under another form of it."""

from __future__ import annotations

import logging
import unicodedata
from pathlib import Path

import pytest
from ledgers import PLAN, STEP, guarantee
from problems import tiny_training

from discreet.accounting.adaptive import filters
from discreet.accounting.adaptive.filters import Filter, ZcdpFilter
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.events import Gaussian
from discreet.ledger import Budget, Ledger
from discreet.ledger.chain import next_entry
from discreet.ledger.names import compared
from discreet.ledger.store import Store, append, ends
from discreet.queries import Account

NFC = "M\u00fcnchen \u212b".replace("\u212b", "\u00c5")
NFD = unicodedata.normalize("NFD", NFC)
HEART, WITH_SELECTOR = "\u2764 patients", "\u2764\ufe0f patients"
FORMS = [(NFC, NFD), (HEART, WITH_SELECTOR), ("Ha\u3164", "Ha")]


def stored(path: Path, dataset: str, budget: Filter | None = None, run: float | None = None) -> None:
    """What an earlier version wrote, which took the name as it came: a budget, or a run that was charged."""
    store = Store(path)
    with store.transaction() as connection:
        if budget is not None:
            append(connection, next_entry(ends(connection, -1)[1], "budget", filters.as_dict(budget), dataset=dataset))
        if run is not None:
            opened = guarantee(run)
            body = {
                "plan": PLAN,
                "epsilon": run,
                "delta": opened.delta,
                "adjacency": opened.adjacency.value,
                "unit": opened.unit.value,
            }
            append(
                connection,
                next_entry(ends(connection, -1)[1], "run", body, dataset=dataset, run=f"old {dataset!a} {run}"),
            )
    store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_the_forms_are_different_texts_of_one_name() -> None:
    assert NFC != NFD
    for one, other in FORMS:
        assert one != other
        assert compared(one) == compared(other)
    assert compared("patients") != compared("patient s")


@pytest.mark.parametrize(("asked", "kept"), [(NFC, NFD), (NFD, NFD), (NFD, NFC), (HEART, WITH_SELECTOR)])
def test_a_budget_that_was_stored_in_another_form_still_binds(path: Path, asked: str, kept: str) -> None:
    stored(path, kept, budget=Budget(3.0, 1e-4), run=1.5)
    ledger = Ledger(path)
    ledger.open_run(PLAN, guarantee(1.0), asked)
    said = r"has spent 2\.5 and 2e-06 of 3 and 0\.0001 in 2 runs; .* epsilon 0\.5 and delta 9\.8e-05 are left$"
    with pytest.raises(BudgetExhausted, match=said):
        ledger.open_run(PLAN, guarantee(1.0), asked)
    limit, spent = ledger.budget(asked)
    assert limit == Budget(3.0, 1e-4)
    assert (spent.epsilon, spent.runs) == (2.5, 2)
    ledger.verify()
    ledger.close()


@pytest.mark.parametrize(("asked", "kept"), [(NFC, NFD), (NFD, NFD), (HEART, WITH_SELECTOR)])
def test_so_does_one_over_steps(path: Path, asked: str, kept: str) -> None:
    """Of three steps at rho 0.02 each, within 0.07, one form of the name gets two and the other one."""
    stored(path, kept, budget=ZcdpFilter(0.07, 1e-6))
    step = Gaussian(5.0)
    ledger = Ledger(path)
    runs = [ledger.open_run(PLAN, guarantee(50.0), name) for name in (asked, compared(asked))]
    attempts = [ledger.start_attempt(run, PLAN) for run in runs]
    for place in (0, 0, 1):
        ledger.reserve(runs[place], attempts[place], lambda _charged: [step])
    for run, attempt in zip(runs, attempts, strict=True):
        with pytest.raises(BudgetExhausted, match="zcdp budget"):
            ledger.reserve(run, attempt, lambda _charged: [step])
    assert [ledger.charged_steps(run) for run in runs] == [2, 1]
    ledger.close()


def test_a_run_that_was_opened_in_one_form_goes_on_under_the_budget_of_the_other(path: Path) -> None:
    stored(path, NFD, run=50.0)
    ledger = Ledger(path)
    run = next(entry.run for entry in ledger.entries() if entry.kind == "run")
    attempt = ledger.start_attempt(run, PLAN)
    stored(path, NFC, budget=ZcdpFilter(0.03, 1e-6))
    ledger.reserve(run, attempt, lambda _charged: [Gaussian(5.0)])
    with pytest.raises(BudgetExhausted, match="zcdp budget"):
        ledger.reserve(run, attempt, lambda _charged: [Gaussian(5.0)])
    ledger.close()


def test_of_two_budgets_under_two_forms_both_bind_and_a_new_one_replaces_both(path: Path) -> None:
    for name, epsilon in ((NFD, 1.0), (NFC, 5.0)):
        stored(path, name, budget=Budget(epsilon, 1e-4))
    ledger = Ledger(path)
    with pytest.raises(BudgetExhausted, match=r"of 1 and 0\.0001"):
        ledger.open_run(PLAN, guarantee(2.0), NFC)
    ledger.set_budget(NFD, Budget(3.0, 1e-4))
    ledger.open_run(PLAN, guarantee(2.0), NFC)
    with pytest.raises(BudgetExhausted, match=r"of 3 and 0\.0001"):
        ledger.open_run(PLAN, guarantee(2.0), NFD)
    assert {entry.dataset for entry in ledger.entries() if entry.kind == "run"} == {NFC}
    ledger.close()


def test_forms_that_spent_more_together_are_exhausted_and_not_called_edited(path: Path) -> None:
    """Runs of the form without a budget had no limit."""
    stored(path, NFC, run=50.0)
    ledger = Ledger(path)
    run = next(entry.run for entry in ledger.entries() if entry.kind == "run")
    attempt = ledger.start_attempt(run, PLAN)
    ledger.reserve(run, attempt, lambda _charged: [Gaussian(1.0)])
    stored(path, NFD, budget=ZcdpFilter(0.07, 1e-6), run=1.0)
    for name in (NFC, NFD):
        later = ledger.open_run(PLAN, guarantee(50.0), name)
        with pytest.raises(BudgetExhausted, match="several forms of its name"):
            ledger.reserve(later, ledger.start_attempt(later, PLAN), lambda _charged: [STEP])
    ledger.close()


def test_names_are_stored_in_one_form(path: Path) -> None:
    ledger = Ledger(path)
    ledger.set_budget(NFD, Budget(3.0, 1e-4))
    ledger.open_run(PLAN, guarantee(), NFD)
    assert {entry.dataset for entry in ledger.entries()} == {NFC}
    ledger.close()


UNSEEN = {
    "zero width space": "pat\u200bients",
    "zero width joiner": "pat\u200dients",
    "byte order mark": "\ufeffpatients",
    "right to left override": "\u202epatients",
    "isolate": "patients\u2066",
    "control": "patients\x07",
    "line break": "pati\nents",
    "soft hyphen": "pati\u00adents",
    "no-break space": "our\u00a0patients",
    "line separator": "our\u2028patients",
    "filler": "patients\u3164",
    "other filler": "\u115fpatients",
    "grapheme joiner": "pati\u034fents",
    "variation selector": "patients\ufe0f",
    "further selector": "patients\U000e0101",
    "tag": "patients\U000e0061",
    "braille blank": "our\u2800patients",
}


@pytest.mark.parametrize("name", UNSEEN.values(), ids=UNSEEN)
def test_characters_that_nobody_sees_are_refused_by_name(path: Path, name: str, tmp_path: Path) -> None:
    ledger = Ledger(path)
    for ask in (
        lambda: ledger.open_run(PLAN, guarantee(), name),
        lambda: ledger.set_budget(name, Budget(1.0, 1e-4)),
        lambda: ledger.budget(name),
        lambda: tiny_training(tmp_path, ledger=path, dataset_id=name),
    ):
        with pytest.raises(
            InputError, match=r"name must be printable, .* has U\+[0-9A-F]{4,6} \(.*leave it out$"
        ) as told:
            ask()
        assert str(told.value).isascii()
    assert ledger.entries() == []
    ledger.close()


@pytest.mark.parametrize("name", [" patients", "patients ", "patients\t"])
def test_blanks_around_a_name_are_refused(path: Path, name: str) -> None:
    ledger = Ledger(path)
    with pytest.raises(InputError, match="name must be printable"):
        ledger.open_run(PLAN, guarantee(), name)
    ledger.close()


def test_a_name_without_a_budget_is_told_of_those_that_have_one(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(path)
    with caplog.at_level(logging.WARNING, "discreet"):
        ledger.open_run(PLAN, guarantee(), "patients")
    assert caplog.messages == []  # the ledger has no budgets at all
    for name in ("staff", "Patients 2024", "patient", "scans"):
        ledger.set_budget(name, Budget(9.0, 1e-4))
    with caplog.at_level(logging.WARNING, "discreet"):
        ledger.open_run(PLAN, guarantee(), "patients")
        ledger.open_run(PLAN, guarantee())
        ledger.open_run(PLAN, guarantee(), "scans")
    assert caplog.messages == [
        "the data set 'patients' has no budget, so nothing limits its runs; the ledger has one for 'patient', "
        "'Patients 2024', 'scans' and 1 more",
        "no data set is named, so nothing limits its runs; the ledger has one for 'Patients 2024', 'patient', 'scans' "
        "and 1 more",
    ]
    ledger.close()


@pytest.mark.parametrize("ledger", ["", " ", Path()], ids=["no text", "blank", "no path"])
def test_a_ledger_without_a_name_is_refused_and_not_left_out(tmp_path: Path, ledger: str | Path) -> None:
    """A run would open a ledger of its own, outside the budget that was meant."""
    with pytest.raises(InputError, match="name of the ledger is empty"):
        tiny_training(tmp_path, ledger=ledger, dataset_id="patients")
    with pytest.raises(InputError, match="ledger must be"):
        Account(ledger, delta=1e-6)


@pytest.mark.parametrize("name", [None, 7, b"patients"])
def test_a_name_is_a_text(path: Path, name: object) -> None:
    for ask in (
        lambda: Ledger(path).budget(name),  # type: ignore[arg-type]
        lambda: Account(path, delta=1e-6, dataset=name),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match="a data set's name is a text"):
            ask()
