"""The line search: how far one row moves the scores, the law of the choice, and runs that choose their steps."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agd_runs import agd, agd_training, take
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import FEATURES, blobs, linear, tiny_plan, tiny_training
from scipy import stats
from torch import nn
from torch.utils.data import TensorDataset

from discreet.clipping import ENGINES
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.event_json import from_json
from discreet.core.events import BoundedRange, Compose, Event, Gaussian, flatten
from discreet.core.release import Receipt
from discreet.data import PrivateData, as_private
from discreet.ledger import Ledger
from discreet.methods import AGD
from discreet.plan import Phase
from discreet.publication import publish, verify
from discreet.randomness import TestStream
from discreet.training import line_search as line_search_module
from discreet.training import session as session_module
from discreet.training.line_search import UNITS, Candidates, Search, clipped_losses, objectives

FALSE_ALARM = 1e-9
SIZES = (0.0, 0.5, 1.0, 40.0)
BOUND = 3.0


def candidates(seed: int = 0, sizes: tuple[float, ...] = SIZES) -> Candidates:
    model, generator = linear(seed), torch.Generator().manual_seed(seed)
    directions = {name: torch.randn(one.shape, generator=generator) for name, one in model.named_parameters()}
    return Candidates(model, directions, sizes)


def scores(data: Any, *, alone: bool = True, chunk: int = 7, seed: int = 0) -> Any:
    return objectives(candidates(seed), nn.CrossEntropyLoss(), as_private(data), BOUND, chunk, alone=alone)


def charged(folder: Path) -> tuple[list[Event], tuple[float, ...]]:
    run = json.loads((folder / "run" / "run.json").read_text())["run"]
    ledger = Ledger(folder / "run" / "ledger.sqlite")
    ledger.verify()
    entries = [entry for entry in ledger.entries(run) if entry.kind == "reservation"]
    amounts = ledger.amounts(run)
    ledger.close()
    return [part for one in entries for part, n in flatten(from_json(one.content)) for _ in range(n)], amounts


# One row --------------------------------------------------------------------------------------------------------------

HARD = st.sampled_from([0.0, 1.0, -1.0, 1e-30, 1e10, -1e10, 3e38, -3e38, math.inf, -math.inf, math.nan])


@settings(max_examples=80, deadline=None)
@given(st.lists(HARD, min_size=FEATURES, max_size=FEATURES), st.integers(0, 2), st.integers(0, 24), st.integers(0, 3))
def test_a_row_adds_between_0_and_the_bound_to_every_score(
    row: list[float], target: int, place: int, seed: int
) -> None:
    """Rows made for the purpose, anywhere in the data. Predicted alone, so to the last bit."""
    inputs, targets = blobs(24)
    more = torch.cat([inputs[:place], torch.tensor([row]), inputs[place:]])
    labels = torch.cat([targets[:place], torch.tensor([target]), targets[place:]])
    change = scores((more, labels), seed=seed) - scores((inputs, targets), seed=seed)
    assert ((change >= 0) & (change <= UNITS)).all()


def test_without_clipping_a_row_would_move_them_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs, targets = blobs(24)
    hard = torch.cat([inputs, torch.full((1, FEATURES), 1e4)]), torch.cat([targets, torch.tensor([2])])
    assert scores(hard).max() - scores((inputs, targets)).max() <= UNITS
    monkeypatch.setattr(
        line_search_module,
        "clipped_losses",
        lambda losses, bound: (losses.double() * (UNITS / bound)).round().to(torch.int64),
    )
    change = scores(hard) - scores((inputs, targets))
    assert change.max() > 100 * UNITS


def test_a_loss_that_is_no_number_counts_as_the_bound_and_changes_no_choice() -> None:
    losses = torch.tensor([math.nan, math.inf, -math.inf, -1.0, 0.0, 1.5, 3.0, 9.0, 1e38])
    whole = clipped_losses(losses, BOUND).tolist()
    assert whole == [UNITS, UNITS, UNITS, 0, 0, UNITS // 2, UNITS, UNITS, UNITS]
    inputs, targets = blobs(24)
    broken = torch.cat([inputs, torch.full((1, FEATURES), math.nan)]), torch.cat([targets, torch.tensor([1])])
    for alone in (True, False):
        change = scores(broken, alone=alone, chunk=25) - scores((inputs, targets), alone=alone, chunk=25)
        assert change.tolist() == [UNITS] * len(SIZES) if alone else np.allclose(change, UNITS, atol=100 * 2**8)


def test_scores_are_sums_over_rows_however_they_are_cut_and_of_no_rows_zero() -> None:
    """Against a plain computation in double precision, row by row."""
    inputs, targets = blobs(30)
    line = candidates()
    expected = []
    for size in SIZES:
        weight, bias = (line.parameters(size)[name].double() for name in ("weight", "bias"))
        logits = inputs.double() @ weight.T + bias
        losses = torch.logsumexp(logits, 1) - logits[torch.arange(30), targets]
        expected.append(float(losses.clamp(0, BOUND).sum()))
    for alone, chunk in ((True, 4), (False, 1), (False, 7), (False, 30), (False, 64)):
        found = scores((inputs, targets), alone=alone, chunk=chunk)
        assert found.dtype == np.int64
        assert found * (BOUND / UNITS) == pytest.approx(expected, abs=1e-4)
    nobody = PrivateData(TensorDataset(inputs[:0], targets[:0]))
    assert objectives(line, nn.CrossEntropyLoss(), nobody, BOUND, 5).tolist() == [0] * len(SIZES)
    assert torch.equal(line.model.weight, linear().weight)  # type: ignore[arg-type]


def test_convolutions_are_the_same_in_the_faster_layout() -> None:
    """Against the model itself, moved there."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    line = Candidates(model, {name: torch.randn_like(one) for name, one in model.named_parameters()}, SIZES)
    inputs, targets = torch.randn(10, 1, 8, 8), torch.arange(10) % 3
    found = objectives(line, nn.CrossEntropyLoss(), as_private((inputs, targets)), BOUND, 4)
    for score, size in zip(found, SIZES, strict=True):
        there = {name: one - size * line.directions[name] for name, one in model.state_dict().items()}
        with torch.no_grad():
            output = torch.func.functional_call(model, there, (inputs,))
        losses = nn.functional.cross_entropy(output, targets, reduction="none").clamp(0, BOUND)
        assert score * (BOUND / UNITS) == pytest.approx(float(losses.double().sum()), abs=1e-4)


def test_the_objective_is_looked_at_without_dropout() -> None:
    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = linear()

        def forward(self, x: Any) -> Any:
            return self.head(nn.functional.dropout(x, 0.5, self.training))

    model = Dropped().train()
    line = Candidates(model, {name: torch.ones_like(one) for name, one in model.named_parameters()}, SIZES)
    one, other = (objectives(line, nn.CrossEntropyLoss(), as_private(blobs()), BOUND, 5) for _ in range(2))
    assert one.tolist() == other.tolist()
    assert model.training


# The law of the choice ------------------------------------------------------------------------------------------------


def searching(plan: Any, engine: str, data: Any = None) -> Search:
    model = linear()
    optimizer = AGD(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.tell(1.0)
    optimizer.step()
    private = as_private(blobs() if data is None else data)
    return Search(plan, model, nn.CrossEntropyLoss(), optimizer, private, ENGINES[engine], 24)


def drawn(search: Search, plan: Any, draws: int, cached: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(line_search_module, "objectives", lambda *_args, **_named: cached)
    stream, sizes = TestStream(11), plan.line_search.step_sizes(())
    found = [search.choose((), Receipt("r", 0, i, plan.line_search.event), stream) for i in range(draws)]
    return np.bincount([sizes.index(size) for size in found], minlength=len(sizes))


def fits(counts: Any, scores: Any) -> bool:
    law = np.exp(scores - scores.max())
    return bool(stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > FALSE_ALARM)


def test_the_choice_is_the_exponential_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chi-square, false alarm 1e-9, on 20,000 draws; a tenth less noise would be found out."""
    plan = agd(epsilon=4.0)
    search = searching(plan, "exact")
    totals = np.array([60.0, 51.0, 57.0, 69.0, 78.0, 63.0, 55.5])  # clipped losses at the seven candidates
    cached = (totals * (UNITS / BOUND)).astype(np.int64)
    counts = drawn(search, plan, 20_000, cached, monkeypatch)
    assert plan.line_search is not None
    law = -plan.line_search.epsilon / BOUND * totals
    assert fits(counts, law)
    assert not fits(counts, law / 0.9)


@pytest.mark.parametrize(("engine", "wider"), [("exact", 1.0), ("bookkeeping", 1 + 4 * 30 * 2.0**-20)])
def test_scores_are_scaled_by_what_one_row_and_rounding_can_move(
    engine: str, wider: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 rows at most, of which each may be off by 2^-20 of the bound, before and after, up and down."""
    plan, seen = agd(), []
    monkeypatch.setattr(line_search_module, "noisy_argmax", lambda scaled, *_rest: seen.append(scaled) or 0)
    search = searching(plan, engine)
    assert search.choose((), Receipt("r", 0, 0, plan.line_search.event), TestStream(1)) == 0.0  # type: ignore[union-attr]
    line = Candidates(search._model, search._candidates(()).directions, plan.line_search.step_sizes(()))  # type: ignore[union-attr]
    whole = objectives(line, nn.CrossEntropyLoss(), as_private(blobs()), BOUND, 24, alone=engine == "exact")
    assert plan.line_search is not None
    assert seen[0] == pytest.approx(-plan.line_search.epsilon / wider * (whole / UNITS), rel=1e-12)


def test_a_choice_is_made_by_its_own_receipt_only() -> None:
    plan = agd()
    search = searching(plan, "exact")
    for event in (Gaussian(1.0), BoundedRange(0.1)):
        with pytest.raises(PrivacyViolation, match="not for the choice of a step size"):
            search.choose((), Receipt("r", 0, 0, event), TestStream(1))


# Runs -----------------------------------------------------------------------------------------------------------------


def test_a_run_charges_each_gradient_with_its_choice_and_ends_within_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[float] = []
    precisions: list[float] = []
    real, choose = session_module.gaussian_release, Search.choose

    def spy(total: Any, receipt: Any, *rest: Any) -> Any:
        released.append(receipt.release.noise_multiplier)
        return real(total, receipt, *rest)

    def look(self: Search, phases: Any, receipt: Any, stream: Any) -> float:
        precisions.append(self._optimizer.precision)
        return choose(self, phases, receipt, stream)

    monkeypatch.setattr(session_module, "gaussian_release", spy)
    monkeypatch.setattr(Search, "choose", look)
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
    sizes = [phase.step_size for phase in training._progress.phases]
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
        home: Any = training if place == "save" else Search
        setattr(home, place, fatal(getattr(home, place)))
        with training.session() as session:
            take(training, session, 100)
    finally:
        os._exit(1)


def test_a_resumed_run_keeps_the_gradient_and_the_history(tmp_path: Path) -> None:
    first = agd_training(tmp_path, plan=agd(epsilon=3.0))
    with first.session() as session:
        taken = 0
        while not taken or first._progress.step_size != 0.0:
            taken += take(first, session, 1)
        held = first.optimizer.precision  # type: ignore[attr-defined]
        weights = {name: tensor.clone() for name, tensor in first.model.state_dict().items()}
    assert held > 0
    again = agd_training(tmp_path, plan=agd(epsilon=3.0), resume=True, stream=TestStream(8))
    with again.session() as session:
        assert again.optimizer.precision == held  # type: ignore[attr-defined]
        assert all(torch.equal(weights[name], tensor) for name, tensor in again.model.state_dict().items())
        assert session.ready()
        (receipt, _) = session._receipts
        assert receipt.event.noise_multiplier > first.plan.noise  # type: ignore[union-attr]
        phases = again._progress.phases
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
        assert [phase.step_size is None for phase in training._progress.phases] == [True, False]


def test_plan_and_optimizer_belong_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="chooses its step sizes by a line search; train with"):
        tiny_training(tmp_path, plan=agd())
    model = linear()
    with pytest.raises(InputError, match="which the plan lacks; make the plan with agd_plan"):
        tiny_training(tmp_path, plan=tiny_plan(), model=model, optimizer=AGD(model.parameters()))


def test_losses_that_depend_on_the_chunk_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = line_search_module._losses

    def rough(*args: Any) -> Any:
        found = real(*args)
        return found + 2**-16 * BOUND if len(found) > 1 else found

    monkeypatch.setattr(line_search_module, "_losses", rough)
    with pytest.raises(InputError, match="rounding moves the losses of this model by"):
        agd_training(tmp_path)
    agd_training(tmp_path, engine="exact")


def test_phases_of_older_checkpoints_have_no_step_size() -> None:
    phase = Phase.from_dict({"end": 3, "knobs": [1.0, 2.0], "metrics": {}, "count": None})
    assert phase.step_size is None
    assert Phase.from_dict(phase.as_dict()) == phase
