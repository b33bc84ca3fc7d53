"""Runs that buy metrics: when, of which model, and what rules and policies make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from metric_plans import adaptive, unsampled
from problems import blobs, linear, tiny_plan, tiny_training
from sessions import LOSS
from torch import Tensor, nn

from discreet.core.errors import InputError
from discreet.core.events import Event, Gaussian, Poisson, flatten
from discreet.core.events.event_json import from_json
from discreet.ledger import Ledger
from discreet.plan import (
    Controls,
    Metric,
    ValidationDecay,
)
from discreet.randomness import TestStream
from discreet.training import EarlyStopping
from discreet.training.public.evaluation import evaluate


def test_an_adaptive_run_buys_the_size_once(tmp_path: Path) -> None:
    metrics = [Metric(noise=9.0), Metric(kind="size", noise=9.0)]
    trained = tiny_training(tmp_path, plan=adaptive(metrics=metrics)).run()
    names = [one.metric for one in trained.bought]
    assert names == ["training_size", *["training_accuracy"] * (len(names) - 1)]
    assert len(names) > 2


def charged(folder: Path) -> list[Event]:
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    entries = [entry for entry in ledger.entries() if entry.kind == "reservation"]
    ledger.verify()
    ledger.close()
    return [part for entry in entries for part, n in flatten(from_json(entry.content)) for _ in range(n)]


BOTH = [Metric(noise=8.0, every=2), Metric(kind="loss", noise=4.0, bound=2.0)]


def test_a_fixed_plan_buys_at_the_steps_that_it_names(tmp_path: Path) -> None:
    plan = tiny_plan(metrics=BOTH)
    step, accuracy, loss = Poisson(0.5, Gaussian(1.5)), BOTH[0].event, BOTH[1].event
    training = tiny_training(tmp_path, plan=plan)
    trained = training.run()
    assert charged(tmp_path) == [step, step, accuracy] * 3 + [step, loss]
    assert trained.charged_steps == plan.charges == 11
    assert [(one.step, one.metric) for one in trained.bought] == [
        (3, "training_accuracy"),
        (6, "training_accuracy"),
        (9, "training_accuracy"),
        (11, "training_loss"),
    ]
    assert all(one.deviation == pytest.approx(8.0 * 0.5 / 24) for one in trained.bought[:3])


def test_what_is_bought_is_of_the_model_at_that_step(tmp_path: Path) -> None:
    """With next to no noise, each value is that of the model when it was bought: after the sixth step, say."""
    plan = unsampled(metrics=[Metric(noise=1e-3, every=3)], steps=6)
    training = tiny_training(tmp_path, plan=plan)
    found: list[float] = []
    with training.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
            found.append(evaluate(training.model, LOSS, *blobs())["accuracy"])
        bought = training.result(session).bought
    assert [one.value for one in bought] == pytest.approx([found[2], found[5]], abs=1e-3)


def test_a_loop_of_your_own_and_a_resumed_run_keep_what_was_bought(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    plan = tiny_plan(metrics=[Metric(noise=8.0, every=1)], steps=12)  # in blocks of three steps
    training = tiny_training(tmp_path, plan=plan)

    def stopping() -> None:
        with training.session() as session:
            for _ in range(6):
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(LOSS, chunk)
                if session.between_blocks:
                    training.save(session)
                if session.position == 10:  # in the second block
                    raise Stop

    with pytest.raises(Stop):
        stopping()
    again = tiny_training(tmp_path, plan=plan, resume=True, stream=TestStream(8), model=linear())
    trained = again.run()
    assert trained.charged_steps == 24
    assert [one.step for one in trained.bought] == [2, 4, 6, *range(14, 25, 2)]  # the second block was lost


def test_the_best_by_a_bought_metric_is_kept(tmp_path: Path) -> None:
    states: list[dict[str, Tensor]] = []

    class Noting(nn.Linear):
        def eval(self) -> Noting:
            states.append({name: tensor.clone() for name, tensor in self.state_dict().items()})
            return super().eval()

    torch.manual_seed(0)
    model = Noting(4, 3)
    plan = tiny_plan(metrics=[Metric(noise=40.0, every=1)], steps=8)
    training = tiny_training(tmp_path, plan=plan, model=model, stream=TestStream(11))
    states.clear()
    trained = training.run(early=EarlyStopping(metric="training_accuracy", patience=None))
    values = [one.value for one in trained.bought]
    best = int(np.argmax(values))
    assert len(values) == 8
    assert best < 7
    kept = trained.model.state_dict()
    assert all(torch.equal(states[best][name], kept[name]) for name in kept)
    assert not all(torch.equal(states[7][name], kept[name]) for name in kept)


def test_patience_with_a_bought_metric_ends_the_run(tmp_path: Path) -> None:
    plan = unsampled(metrics=[Metric(noise=1e-3, every=1)], steps=9)
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    trained = tiny_training(tmp_path, plan=plan, model=model, optimizer=optimizer).run(
        early=EarlyStopping(metric="training_accuracy", patience=2, least=0.5)
    )
    assert len(trained.bought) == 3
    assert trained.charged_steps == 6  # one block; the rest of the plan was not charged


def test_a_rule_on_a_metric_that_is_not_bought_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not buy"):
        tiny_training(tmp_path).run(early=EarlyStopping(metric="holdout_accuracy"))


def test_an_adaptive_run_buys_after_each_phase_and_its_policy_may_look(tmp_path: Path) -> None:
    seen: list[dict[str, float]] = []

    def policy(phase: int, history: Any) -> Controls | None:
        seen.extend(dict(each.metrics) for each in history.phases[-1:])
        return None if phase == 3 else history.controls

    metrics = [Metric(noise=9.0), Metric(kind="loss", noise=9.0, bound=3.0)]
    plan = adaptive(policy, metrics=metrics)
    trained = tiny_training(tmp_path, plan=plan).run()
    assert [sorted(each) for each in seen] == [["training_accuracy", "training_loss"]] * 3
    assert [one.value for one in trained.bought[::2]] == [each["training_accuracy"] for each in seen]
    events = charged(tmp_path)
    assert [events.count(metric.event) for metric in metrics] == [3, 3]
    assert trained.charged_steps == len(events) == 3 * 6


def test_a_decay_by_held_out_accuracy(tmp_path: Path) -> None:
    policy = ValidationDecay(metric="holdout_accuracy", average=1, period=1, factor=0.5, threshold=5.0)
    plan = adaptive(policy, metrics=[Metric(noise=9.0, rows="holdout")], holdout=0.4, epsilon=60.0)
    training = tiny_training(tmp_path, plan=plan, ids=range(24), data=blobs())
    training.run()
    noises = [phase.controls.noise_multiplier for phase in training._state.progress.phases]
    assert noises[:3] == [3.0, 1.5, 0.75]
    with pytest.raises(InputError, match="not bought"):
        adaptive(policy)
