"""Everything that is checked before a run, in order. No private row has been seen when the model is copied."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from discreet.certificate.declared_canaries import DeclaredCanaries
from discreet.certificate.earlier_runs import EarlierRun
from discreet.clipping import ENGINES, Criterion, private_parameters
from discreet.clipping.digests import combined_digest, hidden_digests, state_digests
from discreet.clipping.geometry import Geometry
from discreet.clipping.separation.copies import copied
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.silence import warned_once
from discreet.data import Parts, PrivateData, as_private
from discreet.data.private.planned_parts import planned_parts
from discreet.methods import Averaging
from discreet.plan import AdaptivePlan, Plan
from discreet.randomness import RoundedSampler
from discreet.training.clip_state import Clipping
from discreet.training.control.step_size_search import check_step_size_search
from discreet.training.front_end import FrontEnd, front_end
from discreet.training.preflight.data_check import check_public, try_every_row
from discreet.training.preflight.engine_check import Preflight, try_engines
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.losses.counted_weights import warn_of_counted_weights
from discreet.training.preflight.losses.lost_weights import refuse_lost_weights
from discreet.training.preflight.model_check import admit, check_arguments
from discreet.training.preflight.noise_check import noise_named, with_noise
from discreet.training.preflight.plan_check import (
    check_optimizer,
    check_plan,
    engine_for,
    warn_of_unverifiable,
)
from discreet.training.preflight.random_rows import Examples, random_rows
from discreet.training.preflight.watching import with_rows_apart
from discreet.training.public.extra_rows import PublicSource, check_beside
from discreet.training.public.inserted_canaries import check_counted
from discreet.training.public.public_copy import PublicCopy
from discreet.training.public.public_data import PublicData
from discreet.training.public.warm_starts import started_from
from discreet.training.unit_failures import random_unit


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """The checked parts that a run starts from.

    `plan` holds the digest of the model's state. `parts`: training rows and held-out rows. `data`: the rows of the
    steps, with features instead of inputs if the `front` end is computed once. `declared`: digests of the published
    tensors of the model, and of its buffers that are not published. `copy` has seen no private row. `unit`: random rows
    of the shape of a private unit. `canaries`: made-up texts that are among the training rows. `earlier`: private runs
    that released weights of the model. `trained`: the names of the parameters that are trained.
    """

    plan: Plan | AdaptivePlan
    parts: Parts
    data: PrivateData
    clipping: Clipping
    declared: tuple[dict[str, str], dict[str, str]]
    copy: PublicCopy
    beside: PublicSource | None
    preflight: Preflight
    front: FrontEnd
    noise: RoundedSampler
    unit: Examples | None
    canaries: DeclaredCanaries | None
    earlier: tuple[EarlierRun, ...]
    trained: frozenset[str]


@warned_once()
def checked(
    plan: Plan | AdaptivePlan,
    model: nn.Module,
    criterion: Criterion,
    optimizer: torch.optim.Optimizer,
    rows: tuple[object, object, object],
    public: PublicData,
    geometry: Geometry | None,
    scheduler: LRScheduler | None,
    averaging: Averaging | None,
    engine: EngineOptions,
) -> Checked:
    """Check everything before a run, so that no mistake costs privacy. `rows`: data, units and names, as given.

    Errors are those of `Training`. The checks run on copies; private rows decide only if there is an error.
    """
    check_arguments(plan, model, criterion, optimizer, scheduler, averaging)
    if plan.search is not None:
        raise InputError("the plan searches for settings, in several runs; give it to Tuning (discreet tune)")
    noise, (given, units, ids) = noise_named(engine.noise), rows
    parts = planned_parts(plan, as_private(given), units, ids)
    parts.training.check_size(*plan.sampling.sizes(plan.population), plan.population)
    admit(model, optimizer, parts.training)
    data = with_rows_apart(parts.training, model)
    clipping = Clipping(plan.clipping, private_parameters(model), geometry, reach=math.hypot(*plan.sampling.strategy))

    declared = state_digests(model), hidden_digests(model)
    copy = PublicCopy.made(model, criterion, declared)
    beside = PublicSource.made(public.beside, copy)

    classes = _classes(model, criterion, data, declared)
    engine = engine_for(plan, engine)
    apart = engine.name in ENGINES and ENGINES[engine.name].runs == "rows"
    refuse_lost_weights(model, criterion, random_rows(model, data, classes), apart=apart)
    front = front_end(engine, copy, data, plan)
    inputs, behind = data, front.behind(copy.model)
    data = front.of_private(copy, inputs)
    preflight = try_engines(
        engine, behind, copy.criterion, data, classes, plan.rows_per_unit, clipping.preflight_clips()
    )
    if preflight.engine.float_bits is None and not front.alone:  # chosen because the others round too much
        front = replace(front, at_once=1)
        data = front.of_private(copy, inputs)
    preflight = replace(preflight, line=preflight.line + front.described(copy.model))

    check_public(public.named, classes, given, copy)
    check_beside(beside, plan, optimizer)
    check_counted(public.canaries, plan)
    check_plan(plan, *copied(model, criterion), parts, public.validation is not None)
    check_step_size_search(plan, optimizer, model, criterion, data, classes, preflight.engine)
    check_optimizer(optimizer, plan, scheduler)
    preflight = with_noise(preflight, plan, model, clipping, noise)

    plan = plan.with_initial_state(combined_digest(declared[0]))
    warn_of_unverifiable(plan)
    unit = random_unit(behind, data, classes, plan.rows_per_unit)
    canaries, earlier, trained = public.canaries, started_from(model, declared[0]), frozenset(private_parameters(model))
    return Checked(
        plan, parts, data, clipping, declared, copy, beside, preflight, front, noise, unit, canaries, earlier, trained
    )


def _classes(
    model: nn.Module, criterion: Criterion, data: PrivateData, declared: tuple[dict[str, str], dict[str, str]]
) -> int | None:
    """The number of classes, if targets are class indices, after a trial of every row on a copy: what the model derives
    from its first rows is dropped. The labels are looked at, too."""
    seen, loss = copied(model, criterion)
    classes = try_every_row(seen, loss, data)
    if names := _changed(seen, declared):
        others = f" and {len(names) - 1} more" * (len(names) > 1)
        raise PrivacyViolation(
            f"the model changed when it was called, in {names[0]!r}{others}; initialise it on public input first"
        )
    warn_of_counted_weights(criterion, data)
    return classes


def refuse_changed(model: nn.Module, declared: tuple[dict[str, str], dict[str, str]], why: str) -> None:
    """Refuse a model that changed during the checks: its state is declared public, so it must stay the one that was
    declared."""
    if _changed(model, declared):
        raise PrivacyViolation(f"the model {why}")


def _changed(model: nn.Module, declared: tuple[dict[str, str], dict[str, str]]) -> list[str]:
    """The names of the tensors that are other ones than were declared."""
    pairs = zip(declared, (state_digests(model), hidden_digests(model)), strict=True)
    return [name for old, new in pairs for name in sorted(old | new) if old.get(name) != new.get(name)]


def refuse_frozen(model: nn.Module, trained: frozenset[str]) -> None:
    """Refuse a model of which other parameters require a gradient than those that were checked, and one in inference
    mode, where nothing can be trained."""
    if torch.is_inference_mode_enabled():
        raise InputError("a run trains, which torch.inference_mode() does not let it; leave it. Nothing was charged")
    other = sorted(trained ^ private_parameters(model).keys())
    if other:
        now = "frozen" if other[0] in trained else "set to be trained"
        raise InputError(
            f"parameter {other[0]!r} was {now} (requires_grad) after this Training was made, and what is trained was "
            "checked then; say so before, with an optimizer over what is trained. Nothing was charged"
        )
