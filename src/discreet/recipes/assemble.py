"""From a recipe and its data to a run: one assembly, for `discreet train` and for experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Criterion
from discreet.clipping.valued import ValuedCrossEntropy
from discreet.core.adjacency import Unit
from discreet.core.errors import InputError, first_line
from discreet.data import PrivateData, Split, as_private
from discreet.features.precompute import Precomputed
from discreet.plan import AdaptivePlan, Plan
from discreet.recipes.models.centered import Uncentered, set_center
from discreet.recipes.recipe import Recipe
from discreet.recipes.sections.components import RecipeComponents, on_components
from discreet.training import EarlyStopping, EngineOptions, PublicBatches, PublicData, RunOptions, Trained, Training
from discreet.training.run.first_tensors import (
    CENTER,
    COMPONENTS,
    buy_center,
    buy_components,
    kept_tensor,
    placeholder,
    told_tensor,
)

Public = tuple[Tensor, Tensor] | None

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class Run(RunOptions):
    """The folder and ledger of a run. `device`: where the model trains. `shard`: as in `Training`."""

    device: str = "cpu"
    shard: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """The parts of a run beside its recipe: private rows with their units, a loss, and public rows."""

    data: object
    criterion: Criterion
    test: Public = None
    validation: Public = None
    units: object = None
    ids: object = None
    public: Public = None
    """Rows declared public whose gradient joins the steps."""


def assemble(recipe: Recipe, split: Split, run: Run) -> Training:
    """The training of a recipe on its data; nothing is charged yet, except components or a center.

    A model on components cannot be checked without them: the run is opened, and they are charged to it. The same
    training is assembled on made-up components first, so that mistakes cost nothing.
    """
    if recipe.components is None:
        return centered_training(recipe, ready_of(recipe, split), run)
    vectors = kept_tensor(run.path, COMPONENTS) if run.resume else _bought(recipe, recipe.components, split, run)
    ready = ready_of(recipe, on_components(split, vectors))
    return training_on(recipe, ready, recipe.build_model(), replace(run, resume=True))


def _bought(recipe: Recipe, components: RecipeComponents, split: Split, run: Run) -> Tensor:
    made_up = placeholder(split.train[0][0].numel(), components.count)
    training_on(recipe, ready_of(recipe, on_components(split, made_up)), recipe.build_model(), run)
    return buy_components(
        recipe.plan(),
        recipe.build_model(),
        split.train[0],
        components.count,
        components.noise,
        run,
        recipe.noise,
    )


def centered_training(recipe: Recipe, ready: Ready, run: Run) -> Training:
    """The training of a recipe on prepared parts, after its center was bought, if it has one."""
    model = recipe.build_model()
    return training_on(recipe, ready, model, _with_center(recipe, ready, model, run))


def _with_center(recipe: Recipe, ready: Ready, model: nn.Module, run: Run) -> Run:
    """The run, after the center that the recipe asks for was put into the model: bought, or found if it is resumed.

    Before it is charged, the same training is put together with a center of zeros, so that mistakes cost nothing.
    """
    if recipe.center is None:
        return run
    if run.resume:
        center = told_tensor(run.path, CENTER, together=run.shard is not None)
    else:
        training_on(recipe, ready, recipe.build_model(), run)
        features = features_of(Uncentered(model), as_private(ready.data))
        center = buy_center(recipe.plan(), recipe.build_model(), features, recipe.center.noise, run, recipe.noise)
    set_center(model, center)
    return replace(run, resume=True)


def features_of(front_end: nn.Module, data: PrivateData) -> Tensor:
    """The features of all rows, those of each computed from it alone; (rows, width)."""
    found = Precomputed(front_end)
    blocks = np.array_split(np.arange(data.rows), math.ceil(data.rows / _AT_ONCE))
    return torch.cat([found(data.fetch(block)[0]) for block in blocks])


def ready_of(recipe: Recipe, split: Split) -> Ready:
    """The parts that a run of the recipe needs from its data."""
    loss = criterion_for(split.train[1].is_floating_point(), split.values)
    ids = split.ids if recipe.unit is Unit.EXAMPLE else None
    return Ready(recipe.augmented(split.train), loss, split.test, split.validation, split.units, ids, split.public)


def training_on(recipe: Recipe, ready: Ready, model: nn.Module, run: Run) -> Training:
    """The training of a recipe on prepared parts."""
    model = on_device(model, run.device)
    optimizer, plan = recipe.build_optimizer(model), recipe.plan()
    return Training(
        plan,
        model,
        ready.criterion,
        optimizer,
        ready.data,
        units=ready.units,
        ids=None if plan.holdout is None else ready.ids,
        public=PublicData(ready.test, ready.validation, public_of(recipe, ready, plan, model)),
        run=replace(run, keep_spent=recipe.keep_spent),
        geometry=recipe.build_geometry(model),
        engine=engine_of(recipe),
        scheduler=recipe.build_scheduler(optimizer),
        averaging=recipe.averaging,
        shard=run.shard,
    )


def public_of(recipe: Recipe, ready: Ready, plan: Plan | AdaptivePlan, model: nn.Module) -> PublicBatches | None:
    """The public rows that join the steps, with their weight."""
    if recipe.public is None or ready.public is None:
        return None
    return recipe.public.batches(ready.public, plan, model)


def on_device(model: nn.Module, device: str) -> nn.Module:
    """The model on the device; `InputError` if there is no such device."""
    try:
        if torch.device(device).type == "meta":
            raise RuntimeError("its tensors have no values")
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)
        raise InputError(f"models cannot be on the device {device!r} here: {reason}; use cpu") from None


def carry_out(recipe: Recipe, training: Training, *, progress: bool | None = None) -> Trained:
    """Take the steps of `training` with the recipe's evaluation and early stopping; `progress` as in `Training.run`."""
    early = None if recipe.patience is None else EarlyStopping(recipe.watch, recipe.patience)
    return training.run(evaluate_every=recipe.evaluate_every, progress=progress, early=early)


def engine_of(recipe: Recipe) -> EngineOptions:
    """The engine with its options."""
    autocast = None if recipe.autocast is None else torch.bfloat16
    return EngineOptions(recipe.engine, autocast=autocast, fixed_rows=recipe.fixed_rows, noise=recipe.noise)


def criterion_for(regression: bool, values: Sequence[float] | None = None) -> Criterion:
    """The loss that a recipe trains with: squared error for numbers, cross entropy for classes (of these values)."""
    if values is not None:
        return ValuedCrossEntropy(values)
    return nn.MSELoss() if regression else nn.CrossEntropyLoss()
