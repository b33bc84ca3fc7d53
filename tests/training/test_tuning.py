"""Sealed searches: what is released is the best run, with a certificate of the whole search."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import blobs, tiny_plan, tiny_training
from searches import KINDS, LAW, build, recording, tuning, tuning_of, with_trials
from torch import nn

from discreet import InputError, PrivacyViolation, Setup, Tuning, publish, verify
from discreet.plan import Metric
from discreet.randomness import TestStream
from discreet.training.run.trained import Bought, Evaluation
from discreet.training.tuning.tuning import score_of

HELD_OUT: dict[str, Any] = {
    "plan": {"metrics": [Metric(noise=2.0, rows="holdout")], "holdout": 0.3},
    "ids": range(24),
    "score": "holdout_accuracy",
    "public_validation": None,
}


@pytest.mark.parametrize(
    ("kind", "changes"),
    [("random_stopping", {}), ("random_stopping", HELD_OUT), ("parts", {"public_test": blobs(9, seed=1)})],
    ids=["public", "held out", "parts"],
)
def test_the_winning_run_is_published_and_verified(tmp_path: Path, kind: str, changes: dict[str, Any]) -> None:
    search = tuning_of(kind, tmp_path, **changes)
    trained = search.run()
    assert trained.winner in search.plan.search.candidates  # type: ignore[union-attr]
    named = ", ".join(f"{name}={value}" for name, value in trained.winner.items())  # type: ignore[union-attr]
    assert f"charged: the search as a whole\n  winner: {named}\n" in repr(trained)
    assert "steps" not in repr(trained)  # one of seven would look like a run that was stopped
    guarantee = publish(trained, tmp_path / "out")
    assert guarantee == search.plan.guarantee() == search.guarantee
    verified = verify(tmp_path / "out")
    assert verified.accepted, [check for check in verified.checks if not check.passed]
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["search"]["winner"] == trained.winner
    alone, whole = facts["search"]["epsilon_of_one_run"], facts["claim"]["epsilon"]
    assert alone == whole if kind == "parts" else alone < whole
    assert facts["events"]["of"][0]["of"]["event"] == ("compose" if kind == "parts" else "selection")
    pages = [" ".join((tmp_path / "out" / page).read_text().split()) for page in ("report.html", "README.md")]
    for text in pages:
        assert ("in 5 parts, each row" if kind == "parts" else "secret number of runs") in text
        assert re.search("[Tt]uning cost", text)
    assert "The plan of each run: " in pages[0]


def test_the_winner_is_the_best_by_the_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates 0 to 2 hardly move, 3 to 5 learn; whatever the order, one that learned is released."""
    for name, order in (("a", (0, 5, 1)), ("b", (5, 0, 1)), ("c", (1, 0, 4))):
        with_trials(monkeypatch, 3, order)
        plan = {"population": 300, "batch": 150, "noise_multiplier": 0.8, "steps": 30}
        trained = tuning(tmp_path / name, plan=plan, data=blobs(300), public_validation=blobs(90, seed=1)).run()
        assert trained.winner is not None
        assert trained.winner["optimizer.lr"] == 1.0


def test_every_trial_has_noise_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_trials(monkeypatch, 3, (4,))
    models: list[nn.Module] = []
    tuning(tmp_path, recording(models)).run()
    finals = [model.state_dict()["head.weight"] for model in models[-3:]]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(finals, 2))


def test_every_trial_has_a_model_of_its_own(tmp_path: Path) -> None:
    made: list[Setup] = []

    def once(settings: Mapping[str, Any]) -> Setup:
        made.append(made[0] if made else build(settings))
        return made[-1]

    with pytest.raises(InputError, match="make new ones for every trial"):
        tuning(tmp_path, once)


def test_models_drawn_anew_start_from_one_declared_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_trials(monkeypatch, 2, (1,))

    def drawn(settings: Mapping[str, Any]) -> Setup:
        model = nn.Linear(4, 3)
        return Setup(model, nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=settings["optimizer.lr"]))

    search = tuning(tmp_path, drawn)
    trained = search.run()
    publish(trained, tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    assert search.plan.search is not None
    assert len(set(search.plan.search.initial_states)) == 6


@pytest.mark.parametrize("kind", KINDS)
def test_randomness_for_tests_is_never_certified(tmp_path: Path, kind: str) -> None:
    trained = tuning_of(kind, tmp_path, start=lambda number: TestStream(number)).run()
    with pytest.raises(PrivacyViolation, match="randomness"):
        publish(trained, tmp_path / "out")


def test_plans_with_and_without_a_search_go_to_their_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Tuning"):
        tiny_training(tmp_path, plan=tuning(tmp_path).plan)
    with pytest.raises(InputError, match="search"):
        Tuning(tiny_plan(), build, blobs())


def test_what_build_returns_is_a_setup(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^build must return a Setup\(model, criterion, optimizer\), got tuple$"):
        tuning(tmp_path, lambda settings: (build(settings).model, nn.CrossEntropyLoss()))  # type: ignore[arg-type,return-value]


def test_a_search_that_is_run_again_says_what_to_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_trials(monkeypatch, 1)
    search = tuning(tmp_path)
    search.run()
    with pytest.raises(InputError, match="is run once, and cannot be resumed; make a new Tuning for another search"):
        search.run()


def test_scores_are_higher_for_lower_losses_and_never_nan(tmp_path: Path) -> None:
    trained = tiny_training(tmp_path, public_test=blobs(9, seed=1)).run(progress=False)

    def scored(**metrics: float) -> float:
        return score_of(replace(trained, evaluations=(Evaluation(1, metrics),)), next(iter(metrics)), None)

    assert scored(validation_loss=1.0) == -1.0
    assert scored(validation_accuracy=0.5) == 0.5
    assert scored(validation_loss=float("nan")) == -float("inf")
    assert LAW.mean == 4


def test_a_bought_score_is_the_noisy_sum_so_that_a_small_size_wins_nothing(tmp_path: Path) -> None:
    metrics = [Metric(noise=2.0, rows="holdout"), Metric(kind="size", noise=2.0, rows="holdout")]
    trained = tiny_training(tmp_path, plan=tiny_plan(metrics=metrics, holdout=0.3), ids=range(24)).run(progress=False)

    def scored(size: float, accuracy: float) -> float:
        bought = (Bought(8, "holdout_size", size, 2.0), Bought(9, "holdout_accuracy", accuracy, 0.1))
        return score_of(replace(trained, bought=bought), "holdout_accuracy", None)

    assert scored(4.0, 1.0) < scored(10.0, 0.9)
    assert scored(10.0, 0.9) == pytest.approx(4.0)
