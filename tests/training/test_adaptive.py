"""Runs whose steps are chosen on the way: what is charged, what policies see, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from adaptive_runs import VALIDATION, adaptive
from handed_over import steps_seen
from problems import blobs, linear, tiny_training

from discreet.accounting.adaptive.filter_decision import propose
from discreet.core.errors import BudgetExhausted, InputError
from discreet.core.events import Compose, Gaussian, Poisson, Repeat, flatten, steps_of
from discreet.core.events.event_json import from_json
from discreet.core.release import Receipt
from discreet.ledger import Ledger
from discreet.plan import (
    BatchByProgress,
    Constant,
    Controls,
    Counts,
    History,
    NoiseByProgress,
    NoSampling,
    ShuffleSampling,
    ValidationDecay,
)
from discreet.randomness import TestStream


def charged(folder: Path, run: str) -> tuple[list[Any], tuple[float, ...]]:
    """Every elementary event that the ledger holds of a run, and what its filter counted."""
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    entries = [entry for entry in ledger.entries(run) if entry.kind == "reservation"]
    ledger.verify()
    amounts = ledger.amounts(run)
    ledger.close()
    events = [part for entry in entries for part, n in flatten(from_json(entry.content)) for _ in range(n)]
    return events, amounts


class Spy:
    """A policy that notes what it is shown, and decides what it was told."""

    def __init__(self, *decisions: Any) -> None:
        self.decisions, self.seen = list(decisions), []
        self.seen: list[tuple[int, History]]

    def __call__(self, phase: int, history: History) -> Any:
        self.seen.append((phase, history))
        return self.decisions[phase] if phase < len(self.decisions) else None


BUILT_IN = {
    "constant": (Constant(), None, None),
    "validation": (ValidationDecay(average=1, period=1, threshold=0.5), None, None),
    "noise": (NoiseByProgress(epochs=1, step=0.25, deviations=1), None, Counts(noise=2.0)),
    "batch": (BatchByProgress(epochs=1, step=3, least=6), None, Counts(noise=2.0, rate=0.5)),
    "shuffled": (ValidationDecay(average=1, period=1, threshold=2.0), ShuffleSampling(batch=6), None),
    "unsampled": (ValidationDecay(average=1, period=1, threshold=0.5), NoSampling(), None),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_policy_trains_and_what_is_charged_is_what_its_history_says(tmp_path: Path, name: str) -> None:
    policy, sampling, counts = BUILT_IN[name]
    adjacency = "replace_one" if name == "shuffled" else "add_remove"
    noise = 20.0 if name == "shuffled" else 3.0
    plan = adaptive(policy, sampling, counts=counts, adjacency=adjacency, noise_multiplier=noise)
    training = tiny_training(tmp_path, plan=plan, public_validation=VALIDATION)
    trained = training.run()
    run = json.loads(training.folder.identity.read_text())["run"]
    events, amounts = charged(tmp_path, run)
    assert sum(len(steps_of(event)) for event in events) == trained.charged_steps <= plan.most_steps
    assert amounts == plan.filter.cost(Compose(tuple(events)))
    assert all(amount <= limit for amount, limit in zip(amounts, plan.filter.limits, strict=True))
    phases = training._state.progress.phases
    assert set(events) >= {plan.event(phase.controls) for phase in phases}
    if counts is not None:
        bought = [event for event in events if event == counts.event]
        assert len(bought) == len([phase for phase in phases if phase.count is not None]) > 2
    if name in ("noise", "batch", "validation", "shuffled", "unsampled"):
        assert len({phase.controls for phase in phases}) > 1


def test_policies_see_released_and_public_values_only(tmp_path: Path) -> None:
    spy = Spy(Controls(2.0, 12.0), Controls(3.0, 6.0), Controls(4.0, 12.0))
    plan = adaptive(spy, counts=Counts(noise=50.0))
    training = tiny_training(tmp_path, plan=plan, public_validation=VALIDATION)
    training.run()
    assert [phase for phase, _ in spy.seen] == [0, 1, 2, 3]
    assert spy.seen[0][1].phases == ()
    last = spy.seen[-1][1]
    assert [phase.controls for phase in last.phases] == spy.decisions
    assert [phase.end for phase in last.phases] == [5, 14, 19]  # 4, 8 and 4 steps, and a count each
    for phase in last.phases:
        assert phase.metrics.keys() == {"loss", "accuracy"}
        assert phase.count is not None
        assert phase.count != round(phase.count)  # noisy: on a grid far finer than whole numbers
        assert abs(phase.count) < 24 + 7 * 50
    assert last.start == plan.start
    assert last.count_noise == 50.0
    assert 0 < last.epochs_left(Controls(3.0, 12.0)) <= 2.5  # 24 less 19 steps, of half an epoch
    assert session_ended(training) == "the policy ended the run"


def session_ended(training: Any) -> str | None:
    ended: str | None = training._state.progress.ended
    return ended


def test_the_sampler_and_the_divisor_are_those_of_the_charged_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = steps_seen(monkeypatch)
    plan = adaptive(Spy(Controls(3.0, 12.0), Controls(3.0, 3.0)))
    tiny_training(tmp_path, plan=plan).run()
    assert [(one.release.event.rate, one.divisor) for one in seen] == [(0.5, 12.0)] * 4 + [(0.125, 3.0)] * 16


def test_users_have_no_adaptive_plan(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="protects single rows; use a fixed Plan for users"):
        adaptive(unit="user")
    with pytest.raises(InputError, match="units was given, but the plan protects single rows"):
        tiny_training(tmp_path, plan=adaptive(), units=list(range(24)))


def test_the_filter_ends_a_run_cleanly_and_nothing_more_can_be_taken(tmp_path: Path) -> None:
    plan = adaptive(most_steps=200, epsilon=2.0, course=Repeat(Poisson(0.5, Gaussian(3.0)), 12))
    training = tiny_training(tmp_path, plan=plan)
    with training.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(training.criterion, chunk)
        assert session.finished
        assert not session.ready()
        with pytest.raises(BudgetExhausted, match="do not fit"), session.step():
            pytest.fail("a step was taken")
        trained = training.result(session)
        run = session.run
    assert 3 <= trained.charged_steps < 200
    events, amounts = charged(tmp_path, run)
    assert not propose(plan.filter, amounts, events[-1]).admitted  # the last block was cut to what fits
    assert amounts == plan.filter.cost(Compose(tuple(events)))


def test_a_resumed_run_goes_on_with_its_history_and_pays_for_what_was_lost(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    spy = Spy(*[Controls(3.0 + phase, 12.0) for phase in range(9)])
    plan = adaptive(spy, counts=Counts(noise=5.0), every=3.0)  # six steps a phase, in two blocks
    training = tiny_training(tmp_path, plan=plan)

    def until(position: int) -> None:
        with training.session() as session:
            while session.ready():
                if session.position == position:
                    raise Stop
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(training.criterion, chunk)
                if session.between_blocks:
                    training.save(session)

    with pytest.raises(Stop):
        until(11)  # one step into the second block of the second phase
    again = tiny_training(tmp_path, plan=plan, resume=True, stream=TestStream(8), model=linear())
    shown = len(spy.seen)
    trained = again.run()
    assert trained.charged_steps == 24
    phases = again._state.progress.phases
    assert [phase.controls.noise_multiplier for phase in phases[:3]] == [3.0, 4.0, 5.0]
    assert phases[0].end == 7  # six steps and a count: from the checkpoint
    assert phases[1].end == 17  # the block that was lost is charged, and another one is in its place
    assert spy.seen[shown][0] == 2
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    positions = [entry.position for entry in ledger.entries() if entry.kind == "reservation"]
    assert positions == [0, 3, 6, 7, 10, 13, 16, 17, 20, 23]
    ledger.close()


def test_counts_are_right_up_to_their_noise(tmp_path: Path) -> None:
    """With noise 2^-10 the count is the number of correct predictions; a row more changes it by at most one."""
    from discreet.training.private_metrics.counts import noisy_count

    model, stream = linear(), TestStream(3)
    inputs, targets = blobs(40)
    from discreet.data import as_private
    from discreet.randomness import NOISE_SAMPLERS

    data = as_private((inputs, targets))
    noise = NOISE_SAMPLERS["fast"]
    found = []
    for position, rows in enumerate([40, 39, 17, 0]):
        receipt = Receipt("run", 0, position, Gaussian(2.0**-10, "count"))  # type: ignore[arg-type]
        found.append(noisy_count(model, data, np.arange(rows), receipt, stream, noise))
    right = (model(inputs).argmax(1) == targets).cumsum(0)
    wanted = [int(right[39]), int(right[38]), int(right[16]), 0]
    assert [round(value) for value in found] == wanted
    assert all(0 < abs(value - exact) < 8 * 2.0**-10 for value, exact in zip(found, wanted, strict=True))


def test_counts_need_classes(tmp_path: Path) -> None:
    inputs, _ = blobs()
    with pytest.raises(InputError, match="need one class per row"):
        tiny_training(
            tmp_path,
            plan=adaptive(counts=Counts()),
            data=(inputs, torch.zeros(24, 3)),
            criterion=torch.nn.MSELoss(),
        )
    with pytest.raises(InputError, match=r"give PublicData\(validation=\.\.\.\)"):
        tiny_training(tmp_path, plan=adaptive(ValidationDecay()))
