"""Runs that choose their step sizes: what is charged, what is certified, and what a run that was killed keeps."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from agd_runs import BOUND, agd, agd_training, take
from problems import blobs, linear, tiny_plan, tiny_training

from discreet.core.errors import InputError
from discreet.core.events import Compose, Event, flatten
from discreet.core.events.event_json import from_json
from discreet.ledger import Ledger
from discreet.methods import AGD
from discreet.plan import Phase
from discreet.publication import publish, verify
from discreet.randomness import TestStream
from discreet.training import step as step_module
from discreet.training.control import step_size_search as search_module
from discreet.training.control.step_size_search import StepSizeSearch


def charged(folder: Path) -> tuple[list[Event], tuple[float, ...]]:
    run = json.loads((folder / "run" / "run.json").read_text())["run"]
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    ledger.verify()
    entries = [entry for entry in ledger.entries(run) if entry.kind == "reservation"]
    amounts = ledger.amounts(run)
    ledger.close()
    return [part for one in entries for part, n in flatten(from_json(one.content)) for _ in range(n)], amounts


def test_a_run_charges_each_gradient_with_its_choice_and_ends_within_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[float] = []
    precisions: list[float] = []
    real, choose = step_module.gaussian_release, StepSizeSearch.choose

    def spy(total: Any, receipt: Any, *rest: Any) -> Any:
        released.append(receipt.release.noise_multiplier)
        return real(total, receipt, *rest)

    def look(self: StepSizeSearch, phases: Any, receipt: Any, stream: Any) -> float:
        precisions.append(self._optimizer.precision)
        return choose(self, phases, receipt, stream)

    monkeypatch.setattr(step_module, "gaussian_release", spy)
    monkeypatch.setattr(StepSizeSearch, "choose", look)
    training = agd_training(tmp_path, plan=agd(epsilon=6.0))
    trained = training.run()
    plan = training.plan
    assert plan.line_search is not None  # type: ignore[union-attr]
    events, amounts = charged(tmp_path)
    assert events[1::2] == [plan.line_search.event] * (len(events) // 2)  # type: ignore[union-attr]
    assert [event.noise_multiplier for event in events[::2]] == released  # type: ignore[union-attr]
    assert amounts == plan.filter.cost(Compose(tuple(events)))  # type: ignore[union-attr]
    assert 0.5 * plan.filter.limits[0] < amounts[0] <= plan.filter.limits[0]  # type: ignore[union-attr]
    assert trained.charged_steps == len(events) == 2 * len(precisions)
    assert trained.ended is not None
    assert "do not fit" in trained.ended
    sizes = [phase.step_size for phase in training._state.progress.phases]
    assert 0.0 in sizes, "no choice of 0 was drawn: another seed"
    assert any(size for size in sizes)
    # What is held at each choice is as exact as one gradient with the whole budget, whatever happened before.
    budget = 1.0
    for i, precision in enumerate(precisions):
        assert precision / precisions[0] == pytest.approx(budget, rel=1e-6)
        if i < len(sizes) and sizes[i] == 0:
            budget *= 1 + plan.line_search.growth  # type: ignore[union-attr]


def test_it_learns(tmp_path: Path) -> None:
    """With a large budget; a choice at random would not get there. False alarm: by the seeds, none."""
    training = agd_training(
        tmp_path, plan=agd(population=300, epsilon=30.0, splits=15), data=blobs(300), public_test=blobs(300, seed=1)
    )
    trained = training.run()
    assert trained.evaluations[-1].metrics["accuracy"] > 0.8
    assert trained.evaluations[-1].metrics["loss"] < 0.6


@pytest.mark.parametrize("engine", ["auto", "exact"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_certificate_is_accepted(tmp_path: Path, engine: str, adjacency: str) -> None:
    training = agd_training(tmp_path, plan=agd(adjacency=adjacency), engine=engine, stream=None)
    publish(training.run(), tmp_path / "out")
    verified = verify(tmp_path / "out")
    assert verified.accepted, [check for check in verified.checks if not check.passed]
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["claim"]["method"] == "zcdp-filter"
    assert facts["claim"]["epsilon"] <= 20.0
    said = " ".join(facts["assumptions"])
    assert "Gumbel" in said
    assert ("computed alone for the choice of a step size" in said) == (engine == "exact")
    report = (tmp_path / "out" / "report.html").read_text()
    assert "choice of a step size" in report
    assert "as far as a private choice among step sizes said" in report


def test_a_killed_run_goes_on_and_what_was_charged_stays_charged(tmp_path: Path) -> None:
    """Killed between a gradient and its choice, and between a choice and its checkpoint."""
    before = 0
    for attempt, (place, visit) in enumerate((("choose", 3), ("move", 2), ("save", 2))):
        child = os.fork()
        if child == 0:
            _die(tmp_path, place, visit, resume=attempt > 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 77
        now = len(charged(tmp_path)[0])
        assert now > before
        before = now
    training = agd_training(tmp_path, resume=True, stream=None)
    trained = training.run()
    events, amounts = charged(tmp_path)
    limit = training.plan.filter.limits[0]  # type: ignore[union-attr]
    assert len(events) == trained.charged_steps > before
    assert amounts == training.plan.filter.cost(Compose(tuple(events)))  # type: ignore[union-attr]
    assert amounts[0] <= limit
    publish(trained, tmp_path / "out")
    assert verify(tmp_path / "out").accepted


def _die(folder: Path, place: str, visit: int, *, resume: bool) -> None:
    """In a child: take steps until the `visit`-th call of `place`, and vanish there."""
    calls = 0

    def fatal(real: Any) -> Any:
        def wrapped(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == visit:
                os._exit(77)
            return real(*args, **named)

        return wrapped

    try:
        training = agd_training(folder, resume=resume, stream=None)
        home: Any = training if place == "save" else StepSizeSearch
        setattr(home, place, fatal(getattr(home, place)))
        with training.session() as session:
            take(training, session, 100)
    finally:
        os._exit(1)


def test_a_resumed_run_keeps_the_gradient_and_the_history(tmp_path: Path) -> None:
    first = agd_training(tmp_path, plan=agd(epsilon=3.0))
    with first.session() as session:
        taken = 0
        while not taken or first._state.progress.step_size != 0.0:
            taken += take(first, session, 1)
        held = first.optimizer.precision  # type: ignore[attr-defined]
        weights = {name: tensor.clone() for name, tensor in first.model.state_dict().items()}
    assert held > 0
    again = agd_training(tmp_path, plan=agd(epsilon=3.0), resume=True, stream=TestStream(8))
    with again.session() as session:
        assert again.optimizer.precision == held  # type: ignore[attr-defined]
        assert all(torch.equal(weights[name], tensor) for name, tensor in again.model.state_dict().items())
        assert session.ready()
        (receipt, _) = session._charged._receipts
        assert receipt.event.noise_multiplier > first.plan.noise  # type: ignore[union-attr]
        phases = again._state.progress.phases
        assert [phase.step_size for phase in phases][-1] == 0.0
        assert len(phases) == taken


def test_a_step_that_breaks_off_loses_its_choice_too(tmp_path: Path) -> None:
    training = agd_training(tmp_path)
    with training.session() as session:
        assert session.ready()
        with pytest.raises(ZeroDivisionError), session.step():
            raise ZeroDivisionError
        take(training, session, 2)
        assert session.position == 6
        assert [phase.step_size is None for phase in training._state.progress.phases] == [True, False]


def test_plan_and_optimizer_belong_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chooses its step sizes by a line search; train with"):
        tiny_training(tmp_path, plan=agd())
    model = linear()
    with pytest.raises(InputError, match="which the plan lacks; make the plan with agd_plan"):
        tiny_training(tmp_path, plan=tiny_plan(), model=model, optimizer=AGD(model.parameters()))


def test_losses_that_depend_on_the_chunk_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = search_module.losses_at

    def rough(*args: Any) -> Any:
        found = real(*args)
        return found + 2**-16 * BOUND if len(found) > 1 else found

    monkeypatch.setattr(search_module, "losses_at", rough)
    with pytest.raises(InputError, match="rounding moves the losses of this model by"):
        agd_training(tmp_path)
    agd_training(tmp_path, engine="exact")


def test_phases_of_older_checkpoints_have_no_step_size() -> None:
    phase = Phase.from_dict({"end": 3, "knobs": [1.0, 2.0], "metrics": {}, "count": None})
    assert phase.step_size is None
    assert Phase.from_dict(phase.as_dict()) == phase
