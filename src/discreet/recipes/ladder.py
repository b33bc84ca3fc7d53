"""The debug ladder shows where accuracy is lost, rung by rung, on rows declared public.

| rung    | a step is                                                  | what it shows                   |
|---------|------------------------------------------------------------|---------------------------------|
| plain   | the mean gradient of a batch, as anywhere else             | what model and optimizer can do |
| clipped | each gradient clipped as the recipe says; next to no noise | what clipping costs             |
| noisy   | clipped, with the noise of the recipe's plan               | what the run will be like       |

Public rows are repeated up to the declared population, so that batches, divisor and noise are those of the real run.
The runs draw from a test stream, which anybody can repeat, and the first rungs have no finite epsilon: none of them can
be published. Nothing is charged, and no row that is not declared public is trained on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from discreet.clipping import Criterion
from discreet.clipping.losses import summed_loss
from discreet.core.adjacency import Unit
from discreet.core.errors import DiscreetError, InputError, PrivacyViolation
from discreet.data import Split, as_private
from discreet.methods import NoiseAware, RunningAverage
from discreet.randomness import TestStream
from discreet.recipes.assemble import Run, assemble, carry_out, centered_training, criterion_for, features_of, ready_of
from discreet.recipes.models.centered import Uncentered, set_center
from discreet.recipes.recipe import Recipe
from discreet.recipes.sections.center import RecipeCenter
from discreet.training import Trained
from discreet.training.augmented_views import transformed
from discreet.training.public.evaluation import evaluate

RUNGS = ("plain", "clipped", "noisy")

_NEXT_TO_NONE = 1e-4
"""The noise in each number of a mean gradient, in clip norms, for a run "without noise". (Zero noise would have no
grid.)"""

_LEARNED_FROM = 0.7
"""The share of the public rows that rungs train on, unless the training rows are public too."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A rung's metrics on `rows` public rows; its model is not kept. `fault` says why there are no metrics."""

    name: str
    metrics: Mapping[str, float]
    fault: str | None = None
    rows: int = 0

    @property
    def model(self) -> NoReturn:
        """A rung has no model, so `publish` refuses it."""
        raise PrivacyViolation(
            f"this is the rung {self.name!r} of the debug ladder: it has no guarantee and cannot be published; train "
            "with discreet train"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows that rungs train on and are evaluated on, both public. `criterion`: their loss, if it is not the usual
    one."""

    learn: tuple[Tensor, Tensor]
    judge: tuple[Tensor, Tensor]
    criterion: Criterion | None = None


def public_rows(split: Split, criterion: Criterion | None = None, *, all_public: bool) -> Rows:
    """The rows of the ladder: the public test rows in two parts; if all rows are declared public, the training and test
    rows.

    `InputError` if the data has no public rows.
    """
    if split.test is None:
        raise InputError(
            "the debug ladder needs public rows, and this data has none: give public test rows (x_test and y_test), or "
            "made-up rows of the same shape"
        )
    if all_public:
        return Rows(split.train, split.test, criterion)
    count = len(split.test[1])
    order = torch.from_numpy(np.random.Generator(np.random.PCG64(0)).permutation(count))
    first = round(_LEARNED_FROM * count)
    if not 0 < first < count:
        raise InputError(f"the data has {count} public test row(s), too few for the debug ladder; give at least two")
    learn, judge = (tuple(part[chosen] for part in split.test) for chosen in (order[:first], order[first:]))
    return Rows((learn[0], learn[1]), (judge[0], judge[1]), criterion)


def climb(
    recipe: Recipe, split: Split, criterion: Criterion | None = None, *, all_public: bool = False
) -> Iterator[Rung]:
    """The rungs of a recipe in order, with its usual loss or another. If a rung fails, its `fault` says why."""
    rows = public_rows(split, criterion, all_public=all_public)
    for name in RUNGS:
        try:
            found = plain(recipe, split, rows) if name == "plain" else _private(name, recipe, split, rows)
            yield Rung(name, found, rows=len(rows.judge[1]))
        except DiscreetError as error:
            yield Rung(name, {}, str(error))


def plain(recipe: Recipe, split: Split, rows: Rows) -> Mapping[str, float]:
    """Metrics of the recipe's model after the plan's number of steps on mean gradients, without clipping or noise.

    This is an ordinary torch loop, which shares no code with private steps.
    """
    model, data = recipe.build_model(), as_private(recipe.augmented(rows.learn))
    if recipe.center is not None:
        set_center(model, features_of(Uncentered(model), data).mean(0))
    optimizer = recipe.build_optimizer(model)
    if isinstance(optimizer, NoiseAware):
        raise InputError(f"{recipe.optimizer.name} is made of the noise of private steps; it has no plain run")
    scheduler = recipe.build_scheduler(optimizer)
    average = None if recipe.averaging is None else RunningAverage(model, recipe.averaging)
    criterion = rows.criterion or criterion_for(rows.learn[1].is_floating_point(), split.values)
    generator = np.random.Generator(np.random.PCG64(1))
    size = min(data.rows, max(1, round(_batch(recipe))))
    for step in range(recipe.steps):
        inputs, targets = data.fetch(np.sort(generator.choice(data.rows, size, replace=False)))
        optimizer.zero_grad()
        (summed_loss(criterion, model(transformed(data, inputs)), targets) / size).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        if average is not None:
            average.update(step + 1)
    return evaluate(model if average is None else average.model, criterion, *rows.judge)


def run(name: str, recipe: Recipe, split: Split, rows: Rows, folder: Path) -> Trained:
    """The run of the rung `clipped` or `noisy`: on public rows and a test stream, so that no certificate is made."""
    changes: dict[str, object] = {"metrics": (), "holdout": None, "odometer": None, "stop_at": None, "patience": None}
    if name == "clipped":
        schedule = f"uniform:initial={_NEXT_TO_NONE * _batch(recipe)!r}"
        changes |= {"epsilon": None, "schedule": schedule, "adaptive": None}
        if recipe.center is not None:  # a mean over as many rows
            changes["center"] = RecipeCenter(noise=_NEXT_TO_NONE * recipe.population)
    recipe = recipe.model_copy(update=changes)
    count = int(recipe.population)
    places = torch.arange(count) % len(rows.learn[1])
    learn = rows.learn[0][places], rows.learn[1][places]
    users = np.arange(count) if recipe.unit is Unit.USER else None
    made = replace(split, train=learn, test=rows.judge, validation=rows.judge, units=users, ids=None)
    options = Run(folder / "run", stream=TestStream(0))
    if rows.criterion is None:
        return carry_out(recipe, assemble(recipe, made, options), progress=False)
    ready = replace(ready_of(recipe, made), criterion=rows.criterion)
    return carry_out(recipe, centered_training(recipe, ready, options), progress=False)


def _private(name: str, recipe: Recipe, split: Split, rows: Rows) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        last = run(name, recipe, split, rows, Path(folder)).last_metrics
    return {name: value for name, value in last.items() if not name.startswith("validation_")}


def _batch(recipe: Recipe) -> float:
    """The expected batch of the first step."""
    plan = recipe.plan()
    return plan.sampling.expected_batch(plan.population)
