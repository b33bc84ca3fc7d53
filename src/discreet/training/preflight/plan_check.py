"""Checks that a plan can be carried out. A failure in a step would depend on the data, so it must come before."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR, ReduceLROnPlateau

from discreet.certificate.files import plan_fault
from discreet.clipping import Criterion
from discreet.core.errors import InputError
from discreet.core.events import Event, steps_of
from discreet.data import Parts, PrivateData
from discreet.mechanism import GRID_BITS, LARGEST_MULTIPLE, grid_for, noise_multiplier
from discreet.methods import check_noise
from discreet.methods.noise_aware import check_population
from discreet.plan import AdaptivePlan, IndividualSampling, Plan, mean_noises
from discreet.sampling import ROOM
from discreet.training.preflight.data_check import try_every_row
from discreet.training.preflight.engine_options import AUTO, EngineOptions
from discreet.training.private_metrics.counts import check_countable
from discreet.training.private_metrics.noisy_metrics import check_losses

_log = logging.getLogger("discreet")


def check_plan(
    plan: Plan | AdaptivePlan, model: nn.Module, criterion: Criterion, parts: Parts, validated: bool
) -> None:
    """Refuse a plan that this model or data cannot carry out; `validated`: there is public validation data."""
    data = parts.training
    if parts.held_out is not None:
        try_every_row(model, criterion, parts.held_out)
    for metric in plan.metrics:
        held = parts.held_out if metric.rows == "holdout" else data
        assert held is not None
        units, share = plan.units_of(metric)
        check_bought(metric.event, units / share, held)
        if metric.kind == "accuracy":
            check_countable(model, data)
        elif metric.kind == "loss":
            check_losses(model, criterion, data)
    if plan.policy is None:
        strategy = plan.sampling.strategy
        units = math.ceil(plan.largest_batch * sum(strategy) / math.hypot(*strategy))  # what may lie in one release
        for release in plan.releases():
            check_grid(release, units)
        return
    if plan.policy.metric == "accuracy" and not validated:
        raise InputError("the policy looks at the accuracy on public data; give PublicData(validation=...)")
    if plan.counts is not None:
        check_bought(plan.counts.event, plan.population, data)
        _check_whole(steps_of(plan.counts.event)[0])
        check_countable(model, data)


def warn_of_unverifiable(plan: Plan | AdaptivePlan) -> None:
    """Warn before a run whose model cannot be published, as no verifier knows a part of its plan (a plug-in)."""
    said = plan_fault(plan.model_dump(mode="json"))
    if said is not None:
        _log.warning("what this run trains cannot be published, as no verifier can check it: %s", said)


def engine_for(plan: Plan | AdaptivePlan, engine: EngineOptions) -> EngineOptions:
    """The options; where units have budgets of their own, the engine that computes each unit alone, one in a chunk."""
    if not isinstance(plan.sampling, IndividualSampling):
        return engine
    if engine.name not in (AUTO, "exact"):
        raise InputError(
            f"where units have budgets of their own, each is computed alone: use engine='exact', not {engine.name!r}"
        )
    return replace(engine, name="exact", physical_batch=1)


def check_optimizer(
    optimizer: torch.optim.Optimizer, plan: Plan | AdaptivePlan, scheduler: LRScheduler | None = None
) -> None:
    """Refuse a scheduler that needs a loss or has fewer steps than the plan, and an optimizer that was made for other
    noise than the plan's, or another population. (The noise of an adaptive plan it sees step by step.)"""
    if isinstance(scheduler, ReduceLROnPlateau):
        raise InputError(
            "ReduceLROnPlateau asks for a loss at every step, and that of private rows is not paid for; take a "
            "schedule that looks at steps alone, or stop early by a metric that is public or bought"
        )
    if isinstance(scheduler, OneCycleLR) and scheduler.total_steps < plan.steps:
        raise InputError(
            f"OneCycleLR has {scheduler.total_steps} steps and the plan {plan.steps}, so the run would fail on the "
            f"way; make it with total_steps={plan.steps}"
        )
    if plan.policy is None and plan.clipping.norm_at(0) is not None:
        check_noise(optimizer, mean_noises(plan))
    check_population(optimizer, plan.population, 0.0 if plan.holdout is None else plan.holdout.share)


def check_grid(release: Event, units: int) -> None:
    """Refuse a release of sums over up to `units` units that might not fit their grid, whatever the sensitivity."""
    if units * 2.0 ** (GRID_BITS + 1) / noise_multiplier(release) >= LARGEST_MULTIPLE:
        raise InputError(
            f"batches of up to {units} units are too large for so little noise; raise the noise multiplier or "
            "take smaller batches"
        )


def check_bought(event: Event, declared: float, data: PrivateData) -> None:
    """Refuse to buy a sum over units of `data` (`declared` units in all) that might not fit its grid, because then the
    exact sum would decide whether the run ends. Refuse more units than the grid was checked for, too."""
    most = round(ROOM * declared) + 1
    if len(data) > most:
        raise InputError(
            f"a metric would be bought of more units than the {most} that the declared population allows; declare a "
            "population that is public and large enough"
        )
    check_grid(steps_of(event)[0], most)


def _check_whole(release: Event) -> None:
    """Refuse a count whose grid is coarser than one row: rounding would reveal something of the rows."""
    if grid_for(release, 1.0) > 1:
        raise InputError(
            f"counts with noise {noise_multiplier(release):g} are too coarse to count single rows; take noise below "
            f"2^{GRID_BITS + 1}"
        )


def warn_of_a_still_scheduler(scheduler: LRScheduler | None, steps: int) -> None:
    """Say that a scheduler was left where it began, as happens in a loop of the user's own: `run` steps it."""
    if steps > 1 and getattr(scheduler, "last_epoch", None) == 0:
        _log.warning(
            "the scheduler was never stepped in %d steps, so the learning rate stayed where it began; in a loop of "
            "your own call scheduler.step() after each step, as run() does",
            steps,
        )
