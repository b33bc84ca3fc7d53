"""From a recipe and its data to a run: one assembly, for `discreet train` and for experiments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from discreet.clipping import Criterion
from discreet.core.adjacency import Unit
from discreet.data import Split
from discreet.recipes.recipe import Recipe
from discreet.training import EarlyStopping, EngineOptions, Trained, Training


def assemble(
    recipe: Recipe,
    split: Split,
    folder: Path,
    *,
    resume: bool = False,
    ledger: str | None = None,
    dataset_id: str = "",
    on_open: Callable[[], None] | None = None,
) -> Training:
    """The training of a recipe on its data, with its run in `folder`; nothing is charged yet."""
    model = recipe.build_model()
    optimizer = recipe.build_optimizer(model)
    return Training(
        recipe.plan(),
        model,
        criterion_for(split.train[1].is_floating_point()),
        optimizer,
        recipe.augmented(split.train),
        units=split.units,
        ids=split.ids if recipe.unit is Unit.EXAMPLE else None,
        public_test=split.test,
        public_validation=split.validation,
        run_dir=folder,
        resume=resume,
        ledger=ledger,
        dataset_id=dataset_id,
        geometry=recipe.build_geometry(model),
        engine=engine_of(recipe),
        noise=recipe.noise,
        scheduler=recipe.build_scheduler(optimizer),
        averaging=recipe.averaging,
        on_open=on_open,
    )


def carry_out(recipe: Recipe, training: Training, *, progress: bool | None = None) -> Trained:
    """Take the steps of `training` as the recipe has them evaluated and stopped; `progress` as in `Training.run`."""
    early = None if recipe.patience is None else EarlyStopping(recipe.watch, recipe.patience)
    return training.run(evaluate_every=recipe.evaluate_every, progress=progress, early=early)


def engine_of(recipe: Recipe) -> EngineOptions:
    """The engine with its options."""
    autocast = None if recipe.autocast is None else torch.bfloat16
    return EngineOptions(recipe.engine, autocast=autocast, fixed_rows=recipe.fixed_rows)


def criterion_for(regression: bool) -> Criterion:
    """The loss that a recipe trains with: squared error for numbers, cross entropy for classes."""
    return nn.MSELoss() if regression else nn.CrossEntropyLoss()
