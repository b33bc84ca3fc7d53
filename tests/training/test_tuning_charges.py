"""A search is charged whole, before its first run, and stays so whatever ends it; what is refused costs nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from searches import KINDS, build, tuning, tuning_of, with_trials
from torch import Tensor, nn

from discreet import BudgetExhausted, EarlyStopping, InputError, Setup
from discreet.accounting.adaptive.filters import BasicFilter, ZcdpFilter
from discreet.core.adjacency import Query
from discreet.core.errors import DiscreetError, Interrupted, NotProved
from discreet.core.events import Gaussian
from discreet.core.trials import PoissonTrials
from discreet.ledger import Ledger
from discreet.training.tuning import tuning as module


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_search_stays_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Ctrl-C in the second trial: nothing is released, the budget is spent, and there is no way on."""
    with_trials(monkeypatch, 4)
    calls = 0

    class Loss(nn.CrossEntropyLoss):
        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            if armed and calls == 41:
                os.kill(os.getpid(), signal.SIGINT)
            return super().forward(output, target)

    def made(settings: Mapping[str, Any]) -> Setup:
        setup = build(settings)
        return Setup(setup.model, Loss(), setup.optimizer)

    armed = False
    ledger = tmp_path / "shared.sqlite"
    search = tuning_of(kind, tmp_path, made, ledger=ledger, dataset_id="blobs", engine="reference")
    whole = search.guarantee
    books = Ledger(ledger)
    books.set_budget("blobs", BasicFilter(1.5 * whole.epsilon, 2 * whole.delta))
    armed, calls = True, 0
    with pytest.raises(Interrupted, match="stays charged"):
        search.run()
    armed = False
    assert books.budget("blobs")[1].epsilon == whole.epsilon
    assert [entry.kind for entry in books.entries()] == ["budget", "run", "attempt", "reservation"]
    with pytest.raises(BudgetExhausted):
        tuning_of(kind, tmp_path, ledger=ledger, dataset_id="blobs").run()
    books.close()


def test_a_search_of_its_own_cannot_go_on_in_its_folder(tmp_path: Path) -> None:
    tuning(tmp_path).run()
    with pytest.raises(InputError, match="cannot be resumed"):
        tuning(tmp_path).run()


@pytest.mark.parametrize("kind", KINDS)
def test_a_trial_that_fails_leaves_the_search_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with_trials(monkeypatch, 2)
    search, made = None, []
    rehearsed = 7 if kind == "random_stopping" else 5

    def failing(settings: Mapping[str, Any]) -> Setup:
        made.append(settings)
        if len(made) > rehearsed:
            raise RuntimeError("out of memory, say")
        return build(settings)

    search = tuning_of(kind, tmp_path, failing)
    with pytest.raises(RuntimeError, match="out of memory"):
        search.run()
    books = Ledger(tmp_path / "run" / "ledger.sqlite", create=False)
    assert [entry.kind for entry in books.entries()] == ["run", "attempt", "reservation"]
    books.close()


def test_no_trial_at_all_is_charged_and_releases_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "draw_trials", lambda _law, _stream: 0)
    with pytest.raises(DiscreetError, match="stays charged"):
        tuning(tmp_path, trials=PoissonTrials(2.0)).run()
    assert (tmp_path / "run" / "ledger.sqlite").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"score": "validation_f1"}, "validation_loss, validation_accuracy"),
        ({"public_validation": None}, "none without PublicData"),
        ({"dataset_id": "blobs"}, "give ledger"),
        ({"early": EarlyStopping("training_accuracy")}, "does not buy"),
        ({"trials": PoissonTrials(1e4)}, "at most 600"),
        ({"plan": {"batch": 24, "noise_multiplier": 1e-6}}, "no finite epsilon"),
    ],
)
def test_refused_before_anything_is_charged(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tuning(tmp_path, **changes).run()
    assert not (tmp_path / "run").exists()


def test_a_candidate_that_cannot_be_trained_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    def strange(settings: Mapping[str, Any]) -> Setup:
        setup = build(settings)
        stray = [*setup.model.parameters(), nn.Parameter(torch.zeros(1))]
        return setup if settings["clip_norm"] < 2 else replace(setup, optimizer=torch.optim.SGD(stray, lr=1.0))

    with pytest.raises(InputError, match="optimizer"):
        tuning(tmp_path, strange)
    assert not (tmp_path / "run").exists()


def test_queries_before_the_first_step_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot begin with queries"):
        tuning(tmp_path, plan={"before": [Gaussian(20.0, Query.COUNT)]})


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_that_the_budget_has_no_price_for_is_not_opened(tmp_path: Path, kind: str) -> None:
    books = Ledger(tmp_path / "shared.sqlite")
    books.set_budget("blobs", ZcdpFilter(1.0, 1e-5))
    search = tuning_of(kind, tmp_path, ledger=tmp_path / "shared.sqlite", dataset_id="blobs", engine="reference")
    with pytest.raises(NotProved, match="the zcdp budget of data set 'blobs' has no price for this run"):
        search.run()
    assert [entry.kind for entry in books.entries()] == ["budget"]
    books.close()
