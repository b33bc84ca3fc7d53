"""Averages of iterates: the weights they promise, and the way through training, checkpoints and publication."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import WithPublicTensors, blobs, certified_run, linear, tiny_plan, tiny_training
from safetensors.torch import load_file
from stops import dying
from torch import Tensor, nn

import discreet
from discreet import EarlyStopping, InputError
from discreet.methods import Averaging, RunningAverage
from discreet.randomness import TestStream
from discreet.training import step as step_module


def expected(iterates: list[float], rule: Averaging) -> float:
    """The average with its weights written out."""
    kept = iterates[rule.start :]
    if not kept:
        return iterates[-1]
    weights = [1.0 if rule.decay is None else rule.decay**k for k in reversed(range(len(kept)))]
    return float(np.average(kept, weights=weights))


RULES = [Averaging(), Averaging(start=3), Averaging(decay=0.7), Averaging(decay=0.9, start=2), Averaging(decay=0.0)]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_it_is_the_average_with_these_weights(rule: Averaging, dtype: torch.dtype) -> None:
    model = nn.Linear(1, 1, bias=False).to(dtype)
    average = RunningAverage(model, rule)
    values = torch.randn(9, generator=torch.Generator().manual_seed(0)).to(dtype)
    for position, value in enumerate(values, 1):
        model.weight.data.fill_(float(value))
        average.update(position)
        wanted = expected(values[:position].double().tolist(), rule)
        tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 8e-3}[dtype]
        assert float(average.model.weight.detach()) == pytest.approx(wanted, abs=tolerance)


def test_short_types_are_averaged_in_single_precision() -> None:
    """Steps far below the precision of bfloat16 would be lost in it."""
    model = nn.Linear(1, 1, bias=False).bfloat16()
    average = RunningAverage(model, Averaging())
    for position in range(1, 2001):
        model.weight.data.fill_(1.0 if position % 4 else 2.0)
        average.update(position)
    assert float(average.model.weight.detach()) == pytest.approx(1.25, abs=2**-8)


def test_the_model_and_what_is_not_trained_stay_as_they_are() -> None:
    model = WithPublicTensors()
    average = RunningAverage(model, Averaging())
    before = copy.deepcopy(model.state_dict())
    average.update(1)
    with torch.no_grad():
        model.head.weight.add_(2.0)
    average.update(2)
    assert torch.equal(model.head.weight, before["head.weight"] + 2)
    torch.testing.assert_close(average.model.head.weight, before["head.weight"] + 1)
    for name in ("shift", "scale"):
        assert torch.equal(average.model.state_dict()[name], before[name])


def test_tied_parameters_stay_tied() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    average = RunningAverage(model, Averaging())
    assert average.model[1].weight is average.model[0].weight


def iterates(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[list[Tensor], Any]:
    """The weights after every step, and the training, which has run."""
    seen: list[Tensor] = []
    training = tiny_training(folder, **changes)
    real = step_module.apply

    def spy(*args: Any) -> None:
        real(*args)
        seen.append(training.model.weight.detach().clone().double())

    monkeypatch.setattr(step_module, "apply", spy)
    return seen, training


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_training_evaluates_and_returns_the_average(
    rule: Averaging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, training = iterates(tmp_path, monkeypatch, averaging=rule, public_test=blobs(30, seed=1))
    trained = training.run(evaluate_every=1)
    last = torch.tensor(
        [expected([float(w.view(-1)[i]) for w in seen], rule) for i in range(seen[0].numel())], dtype=torch.float64
    )
    torch.testing.assert_close(trained.model.weight.detach().double().view(-1), last, rtol=0, atol=1e-6)
    assert torch.equal(training.model.weight.double(), seen[-1])
    assert not trained.model.training
    inputs, targets = blobs(30, seed=1)
    loss = float(nn.functional.cross_entropy(trained.model(inputs), targets).detach())
    assert trained.evaluations[-1].metrics["loss"] == pytest.approx(loss, rel=1e-5)
    assert len(trained.evaluations) == 7


def test_the_iterates_are_those_of_a_run_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Averaging is post-processing: releases, charges and iterates are the same."""
    runs = {}
    for rule in (None, Averaging()):
        with monkeypatch.context() as patch:
            seen, training = iterates(tmp_path / str(rule), patch, averaging=rule)
            runs[rule] = seen, training.run()
    (without, plain), (averaged, trained) = runs.values()
    assert all(torch.equal(one, other) for one, other in zip(without, averaged, strict=True))
    assert plain.plan.guarantee() == trained.plan.guarantee()
    assert plain.charged_steps == trained.charged_steps
    assert not torch.equal(plain.model.weight, trained.model.weight)


def test_the_average_is_published_and_verified(tmp_path: Path) -> None:
    trained = certified_run(tmp_path, averaging=Averaging(start=2))
    discreet.publish(trained, tmp_path / "out")
    saved = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(saved["head.weight"], trained.model.head.weight)
    assert discreet.verify(tmp_path / "out").accepted


@pytest.mark.parametrize("rule", [Averaging(), Averaging(decay=0.8, start=1), Averaging(start=5)], ids=str)
def test_a_resumed_run_goes_on_with_the_average(
    rule: Averaging, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After step 3 of 7 it stops in the second block, whose three steps are lost; one step is left."""
    first, training = iterates(tmp_path / "whole", monkeypatch, averaging=rule)
    training.run()
    monkeypatch.undo()
    with dying(after=4):
        tiny_training(tmp_path / "cut", averaging=rule).run()
    rest, again = iterates(tmp_path / "cut", monkeypatch, averaging=rule, resume=True, stream=TestStream(8))
    trained = again.run()
    assert len(rest) == 1
    drawn = [*first[:3], *rest]
    kept = drawn[rule.start :] if rule.start < 3 else drawn[3:]  # start counts charged steps: 7 > 5
    weights = [1.0 if rule.decay is None else rule.decay**k for k in reversed(range(len(kept)))]
    wanted = sum(w * one for w, one in zip(weights, kept, strict=True)) / sum(weights)
    torch.testing.assert_close(trained.model.weight.detach().double(), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("before", "after"), [(None, Averaging()), (Averaging(), None)])
def test_another_averaging_after_a_stop_is_refused(
    before: Averaging | None, after: Averaging | None, tmp_path: Path
) -> None:
    with dying(after=4):
        tiny_training(tmp_path, averaging=before).run()
    with pytest.raises(InputError, match="another averaging"):
        tiny_training(tmp_path, averaging=after, resume=True, stream=TestStream(8)).run()


def test_early_stopping_keeps_the_best_average(tmp_path: Path) -> None:
    validation = blobs(30, seed=1)
    trained = tiny_training(tmp_path, averaging=Averaging(), public_validation=validation).run(
        evaluate_every=1, early=EarlyStopping(metric="validation_loss", patience=None)
    )
    losses = [evaluation.metrics["validation_loss"] for evaluation in trained.evaluations]
    found = float(nn.functional.cross_entropy(trained.model(validation[0]), validation[1]).detach())
    assert found == pytest.approx(min(losses), rel=1e-5)


def test_a_loop_of_your_own_has_it_too(tmp_path: Path) -> None:
    training = tiny_training(tmp_path, averaging=Averaging(), plan=tiny_plan(steps=3))
    weights = []
    with training.session() as session:
        while not session.finished:
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(nn.CrossEntropyLoss(), chunk)
            weights.append(training.model.weight.detach().clone())
    trained = training.result(session)
    torch.testing.assert_close(trained.model.weight.detach(), sum(weights) / 3)


def test_a_state_of_another_model_is_refused() -> None:
    state = RunningAverage(nn.Linear(2, 2), Averaging()).state_dict()
    with pytest.raises(ValueError, match="other parameters"):
        RunningAverage(linear(), Averaging()).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decay": 1.0}, "decay"),
        ({"decay": float("nan")}, "decay"),
        ({"start": -1}, "start"),
        ({"start": 2.5}, "start"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Averaging(**options)
