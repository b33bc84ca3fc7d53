"""Stopping early by public metrics, and keeping the best model, for fixed and adaptive plans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from adaptive_runs import VALIDATION, adaptive
from problems import linear, tiny_plan, tiny_training

from discreet.core.errors import InputError
from discreet.plan import Counts, Metric
from discreet.training.public.early_stopping import EarlyStopping
from discreet.training.run.trained import Evaluation


def evaluations(*values: float) -> list[Evaluation]:
    return [Evaluation(i, {"accuracy": value, "loss": 1 - value}) for i, value in enumerate(values)]


def test_patience_counts_evaluations_without_improvement() -> None:
    rule = EarlyStopping("accuracy", patience=2)
    assert not rule.should_stop(evaluations(0.5, 0.4))
    assert rule.should_stop(evaluations(0.5, 0.4, 0.5))
    assert not rule.should_stop(evaluations(0.5, 0.4, 0.51, 0.2))
    assert EarlyStopping("accuracy", patience=2, least=0.1).should_stop(evaluations(0.5, 0.55, 0.58))
    assert EarlyStopping("loss", patience=1).should_stop(evaluations(0.5, 0.4))
    assert not EarlyStopping("accuracy", patience=None).should_stop(evaluations(*[0.5] * 50))
    assert rule.is_best(evaluations(0.4, 0.5))
    assert not rule.is_best(evaluations(0.5, 0.5))


@pytest.mark.parametrize("kind", ["fixed", "adaptive"])
def test_stopping_early_keeps_the_guarantee_and_the_best_model(tmp_path: Path, kind: str) -> None:
    changes: dict[str, Any] = {} if kind == "fixed" else {"plan": adaptive()}
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=50.0)  # so large a rate that accuracies jump about
    training = tiny_training(tmp_path, model=model, optimizer=optimizer, public_validation=VALIDATION, **changes)
    trained = training.run(evaluate_every=1, early=EarlyStopping(patience=2))
    values = [evaluation.metrics["validation_accuracy"] for evaluation in trained.evaluations]
    best = max(values)
    assert values[-1] == best
    scores = trained.model(VALIDATION[0]).argmax(1)
    assert float((scores == VALIDATION[1]).float().mean()) == pytest.approx(best)
    assert trained.charged_steps < training.plan.steps
    assert trained.plan.guarantee() == training.plan.guarantee()


def test_evaluations_are_not_lost_to_bought_counts(tmp_path: Path) -> None:
    """Four steps and a count a phase: every fifth place is a count, and the step after it is evaluated."""
    plan = adaptive(counts=Counts(noise=5.0))
    trained = tiny_training(tmp_path, plan=plan, public_test=VALIDATION).run(evaluate_every=5)
    assert [evaluation.step for evaluation in trained.evaluations] == [6, 11, 16, 21, 24]


def test_early_stopping_needs_something_public(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs PublicData"):
        tiny_training(tmp_path / "a").run(evaluate_every=1, early=EarlyStopping())
    buys = tiny_plan(metrics=[Metric(noise=20.0, every=1)])
    with pytest.raises(InputError, match="looks at 'accuracy'; known here: training_accuracy"):
        tiny_training(tmp_path / "c", plan=buys).run(early=EarlyStopping(metric="accuracy"))
    with pytest.raises(InputError, match="looks at 'validation_accuracy'; known here: loss, accuracy"):
        tiny_training(tmp_path / "b", public_test=VALIDATION).run(evaluate_every=1, early=EarlyStopping())
