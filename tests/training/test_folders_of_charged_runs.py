"""A run whose opening failed after a shared ledger had charged the whole of it: its folder, with the key, stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from problems import linear, tiny_plan, tiny_training

from discreet.accounting.adaptive.filters import Filter, GaussianFilter, ZcdpFilter
from discreet.core.errors import BudgetExhausted, LedgerError, NotProved
from discreet.core.events import Gaussian
from discreet.ledger import Budget, Ledger
from discreet.ledger.store import Store
from discreet.training import RunOptions, answered_first


@pytest.fixture
def where(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path / "team.sqlite")
    ledger.set_budget("people", Budget(100.0, 1e-3))
    ledger.close()
    return tmp_path / "team.sqlite"


def charged_runs(where: Path) -> int:
    ledger = Ledger(where)
    spent = ledger.budget("people")[1]
    ledger.close()
    return spent.runs


def fails_after(real: Callable[..., Any], error: BaseException) -> Callable[..., Any]:
    def failing(*given: Any, **more: Any) -> Any:
        real(*given, **more)
        raise error

    return failing


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [(Store, "settle", KeyboardInterrupt()), (Ledger, "open_run", LedgerError("the server closed the connection"))],
)
def test_a_charged_run_can_be_resumed(
    tmp_path: Path, where: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException
) -> None:
    given: dict[str, Any] = {"stream": None, "engine": "bookkeeping", "ledger": where, "dataset_id": "people"}
    training = tiny_training(tmp_path, **given)
    with monkeypatch.context() as failing:
        failing.setattr(owner, name, fails_after(getattr(owner, name), error))
        with pytest.raises(type(error)):
            training.run(progress=False)
    assert charged_runs(where) == 1
    assert tiny_training(tmp_path, **given, resume=True).run(progress=False).charged_steps == 7
    assert charged_runs(where) == 1


def test_so_can_one_whose_ledger_cannot_be_asked(tmp_path: Path, where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, away = Ledger.open_run, where.with_name("away")

    def open_run(ledger: Ledger, *given: Any) -> str:
        real(ledger, *given)
        where.rename(away)
        raise LedgerError("the disk went away")

    given: dict[str, Any] = {"stream": None, "engine": "bookkeeping", "ledger": where, "dataset_id": "people"}
    training = tiny_training(tmp_path, **given)
    with monkeypatch.context() as failing:
        failing.setattr(Ledger, "open_run", open_run)
        with pytest.raises(LedgerError, match="the disk went away"):
            training.run(progress=False)
    away.rename(where)
    assert tiny_training(tmp_path, **given, resume=True).run(progress=False).charged_steps == 7


@pytest.mark.parametrize("refused", [True, False])
def test_one_that_was_not_charged_leaves_nothing(
    tmp_path: Path, where: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    error: type[Exception] = BudgetExhausted if refused else OSError
    plan = tiny_plan(noise_multiplier=0.2) if refused else tiny_plan()
    training = tiny_training(tmp_path, plan=plan, ledger=where, dataset_id="people")
    if not refused:

        def fails(*_: Any, **__: Any) -> None:
            raise OSError

        monkeypatch.setattr(Ledger, "_append", fails)
    with pytest.raises(error):
        training.run(progress=False)
    assert not (tmp_path / "run").exists()


def test_a_mistake_before_the_first_query_leaves_what_was_charged(tmp_path: Path, where: Path) -> None:
    plan = tiny_plan(before=[Gaussian(10.0)])
    shared = RunOptions(tmp_path / "shared", ledger=where, dataset_id="people")
    for run, stays in ((shared, True), (RunOptions(tmp_path / "own"), False)):
        with pytest.raises(ZeroDivisionError), answered_first(plan, linear(), run):
            raise ZeroDivisionError
        assert run.path.exists() == stays
    assert charged_runs(where) == 1


def test_a_ledger_that_is_gone_hides_no_mistake(tmp_path: Path, where: Path) -> None:
    shared = RunOptions(tmp_path / "shared", ledger=where, dataset_id="people")

    def mistake() -> None:
        with answered_first(tiny_plan(before=[Gaussian(10.0)]), linear(), shared):
            where.unlink()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mistake()
    assert shared.path.exists()


@pytest.mark.parametrize("budget", [GaussianFilter(1.0, 1e-5), ZcdpFilter(1.0, 1e-5)], ids=["gdp", "zcdp"])
def test_a_run_that_the_budget_has_no_price_for_leaves_nothing(tmp_path: Path, budget: Filter) -> None:
    """Poisson batches have no mu and no rho: the ledger does not know the run, and there is no folder to resume."""
    ledger = Ledger(tmp_path / "team.sqlite")
    ledger.set_budget("people", budget)
    training = tiny_training(tmp_path, ledger=tmp_path / "team.sqlite", dataset_id="people")
    with pytest.raises(NotProved, match=f"the {budget.kind} budget of data set 'people' has no price for this run"):
        training.run(progress=False)
    assert [entry.kind for entry in ledger.entries()] == ["budget"]
    assert not (tmp_path / "run").exists()
    ledger.close()
