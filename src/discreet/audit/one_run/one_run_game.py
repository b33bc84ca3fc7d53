"""One whole training with canaries, and a score for each: white box, from what the optimizer is given; black box, from
the final model alone.

The run is a real one: its engine, sampler, noise, ledger and randomness are those of `Training`. Its folder is
temporary, and nothing of it is kept.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from discreet.audit.one_run.canary_rows import Canaries, Rows, loud_canaries, mislabelled_canaries, world
from discreet.audit.one_run.marked_model import PLACES, MarkedModel, marked
from discreet.audit.one_run.place_evidence import evidence
from discreet.audit.row_losses import losses_of
from discreet.clipping import Clip, Criterion
from discreet.clipping.geometry import Geometry
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.array_types import Array, BoolArray
from discreet.core.errors import InputError
from discreet.core.events import Gaussian
from discreet.methods import Averaging
from discreet.plan import AdaptivePlan, Plan
from discreet.plan.noise_on_mean import each_step
from discreet.randomness import Stream
from discreet.training import EngineOptions, RunOptions, Training


@dataclass(frozen=True, slots=True, eq=False)
class Audited:
    """The training of the game: a plan, a new model, its loss, and what builds the rest of a run over a model. `rows`:
    declared public, or made up. `classes`: how many there are; None where targets are numbers."""

    plan: Plan
    model: nn.Module
    criterion: Criterion
    optimizer: Callable[[nn.Module], Optimizer]
    rows: Rows
    classes: int | None
    engine: str | EngineOptions = "auto"
    geometry: Callable[[nn.Module], Geometry | None] = lambda _: None
    scheduler: Callable[[Optimizer], LRScheduler | None] = lambda _: None
    averaging: Averaging | None = None
    augmented: Callable[[object], object] = lambda data: data

    def __post_init__(self) -> None:
        if len(self.rows.targets) < 2:
            raise InputError("an audit needs two rows at least that are public or made up")


def steps_alone(plan: Plan | AdaptivePlan) -> Plan:
    """The plan of the steps of training alone, with their noise: without metrics, queries before, a hold-out, an
    odometer. `InputError` for a plan that is not fixed beforehand: it has no curve to compare with."""
    if isinstance(plan, AdaptivePlan) or plan.search is not None:
        raise InputError(
            "a run in one go is compared with the trade-off curve of a plan that is fixed beforehand; leave out "
            "adaptive or search, or take discreet audit build"
        )
    nothing = {"metrics": (), "before": (), "holdout": None, "odometer": None, "initial_state": None}
    return plan.model_copy(update=nothing)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The coins of canaries, and a score of each that is larger for those that seem to be in."""

    coins: BoolArray
    scores: Array


@dataclass(frozen=True, slots=True, eq=False)
class Played:
    """The scores that a run gave away. `white`, `black`: None where there were no such canaries. `steps`: how many were
    taken."""

    white: Scored | None
    black: Scored | None
    steps: int


def play(
    subject: Audited,
    white: int,
    black: int,
    *,
    seed: int,
    progress: bool | None = False,
    stream: Stream | None = None,
) -> Played:
    """Train once, with so many canaries of each kind (black: at most as many as there are rows).

    `seed` decides coins and rows; the run itself draws from the operating system, or, in tests, from a `stream`.
    `InputError` where the population has no room for the canaries.
    """
    plan, rng = subject.plan, np.random.default_rng(seed)
    loud = loud_canaries(subject.rows, white, rng) if white else None
    wrong = mislabelled_canaries(subject.rows, black, subject.classes, rng) if black else None
    groups = [one for one in (loud, wrong) if one is not None]
    made = world(subject.rows, groups, plan, rng)
    inputs, model = made.rows.inputs, subject.model
    wrapped = white > 0 or plan.adjacency is Adjacency.ZERO_OUT
    if wrapped:
        model = MarkedModel(model, inputs.shape[1:], inputs.dtype, max(1, white))
        inputs = marked(inputs, torch.from_numpy(made.numbers))
    data: object = (inputs, made.rows.targets)
    optimizer = subject.optimizer(model)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(
            plan,
            model,
            subject.criterion,
            optimizer,
            data if wrapped else subject.augmented(data),
            units=np.arange(len(made.rows.targets)) if plan.unit is Unit.USER else None,
            run=RunOptions(f"{folder}/run", stream=stream),
            geometry=subject.geometry(model),
            engine=subject.engine,
            scheduler=subject.scheduler(optimizer),
            averaging=subject.averaging,
        )
        before = _losses(subject, training.copy.model, wrong, wrapped=wrapped)
        seen = _Places(training, plan) if white else None
        trained = training.run(progress=progress, evaluate_every=plan.steps)
        after = _losses(subject, trained.model, wrong, wrapped=wrapped)
    return Played(
        None if seen is None or loud is None else Scored(loud.coins, seen.scores(plan)),
        None if wrong is None else Scored(wrong.coins, before - after),
        trained.charged_steps,
    )


class _Places:
    """Notes what the optimizer is given for the places, at every step of a training that is about to run."""

    def __init__(self, training: Training, plan: Plan) -> None:
        self._clipping, self._moves, self._noises = training.clipping, [], []  # type: ignore[var-annotated]
        self._weight = dict(training.model.named_parameters())[PLACES]
        self._divisors, self._multipliers = each_step(plan.batches), each_step(plan.multipliers)
        training.optimizer.register_step_pre_hook(lambda *_: self._look())

    def _look(self) -> None:
        step, given = len(self._moves), self._weight.grad
        multiplier = self._multipliers[step]
        clip = self._clipping.at(step, Gaussian(multiplier))
        moved = -(given if given is not None else torch.zeros_like(self._weight)).double() * self._divisors[step]
        unit = _contribution(clip)
        scale = 1.0 if clip.scales is None else clip.scales[PLACES].double()
        self._moves.append((moved / (unit * scale)).flatten()[1:].cpu().numpy())
        self._noises.append(multiplier * clip.sensitivity / unit)

    def scores(self, plan: Plan) -> Array:
        return evidence(np.stack(self._moves), np.array(self._noises), plan)


def _contribution(clip: Clip) -> float:
    """The part that a canary adds to its place, which is all but the whole of its clipped gradient there; in the scales
    of the clip."""
    if clip.box:
        return 1.0
    groups = [group.norm for group in clip.groups if PLACES in group.names]
    return groups[0] if groups else clip.norm


def _losses(subject: Audited, model: nn.Module, canaries: Canaries | None, *, wrapped: bool) -> Array:
    """The loss of each canary as it is in the data where it is in."""
    if canaries is None:
        return np.zeros(0)
    inputs, targets = canaries.inside
    if wrapped:
        inputs = marked(inputs, torch.zeros(len(targets)))
    return losses_of(model, inputs, targets, subject.criterion)
