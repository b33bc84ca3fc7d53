"""The section of public rows that join every step: `public: {share: 20%, weight: 0.3}`.

The default weight follows from declared figures. In units of the clip norm, the squared error of a mean gradient over T
steps is about

    a = directions x mean of (noise multiplier / expected batch)^2 / T + 1 / population
    b = 1 / public rows

for private and for public rows: noise is fresh in every step, rows are not. `directions` is the number of parameters,
or the population if that is less, because the gradients of that many rows span no more. The weight a / (a + b) has the
least error, if public rows are like private ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import nn

from discreet.clipping import private_parameters
from discreet.core.errors import InputError
from discreet.data import Split
from discreet.data.sets.splits import Part, cut
from discreet.plan import AdaptivePlan, Plan
from discreet.plan.noise_on_mean import each_step
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Count
from discreet.recipes.sections.private_metrics import Share
from discreet.training import PublicBatches

_LEAST, _MOST = 0.01, 0.99


class RecipePublic(Frozen):
    """Public rows in every step. `weight`: of their gradient; by default it follows from declared figures. `batch`:
    rows per step, by default all. `share`: of the public test rows of a data set, which is then tested on the others; a
    table's public rows are a table, too (`--public`)."""

    weight: Annotated[float, Field(gt=0, lt=1)] | None = None
    batch: Count | None = None
    share: Share | None = None

    def check(self, *, of_table: bool) -> None:
        """Refuse a share where a table gives the rows, and a missing share where nothing else does."""
        if of_table and self.share is not None:
            raise ValueError("rows of a table that join the steps are given with --public FILE; leave out share")
        if not of_table and self.share is None:
            raise ValueError("say which share of the public test rows joins the steps: public: {share: 20%}")

    def batches(self, rows: Part, plan: Plan | AdaptivePlan, model: nn.Module) -> PublicBatches:
        """The rows as a run takes them."""
        inputs, targets = rows
        weight = weight_for(plan, model, len(targets)) if self.weight is None else self.weight
        return PublicBatches(inputs, targets, weight, self.batch)


def weight_for(plan: Plan | AdaptivePlan, model: nn.Module, rows: int) -> float:
    """The weight of `rows` public rows, from declared figures alone, to two digits."""
    parameters = sum(parameter.numel() for parameter in private_parameters(model).values())
    steps, noise = _noise(plan)
    private = min(parameters, plan.population) * noise / steps + 1 / plan.population
    return min(_MOST, max(_LEAST, float(f"{private / (private + 1 / rows):.2g}")))


def _noise(plan: Plan | AdaptivePlan) -> tuple[int, float]:
    """The number of steps, and the mean over them of (noise multiplier / expected batch)^2."""
    multipliers, batches = each_step(plan.multipliers), each_step(plan.batches)
    return plan.steps, float(np.mean(np.divide(multipliers, batches) ** 2))


def parted(split: Split, public: RecipePublic | None, validation: float) -> Split:
    """The split with rows for validation, and rows that join the steps, both taken from its test rows.

    The joining rows are spread over all test rows; `validation` is a share of the others.
    """
    if public is not None and public.share is not None:
        test, joined = _spread(split.test, public.share)
        split = replace(split, test=test, public=joined)
    if not validation:
        return split
    if split.validation is not None:
        raise InputError("recipe: the data brings rows for validation; leave out validation")
    rest, first = cut(split.test, validation)
    return replace(split, test=rest, validation=first)


def _spread(test: Part | None, share: float) -> tuple[Part, Part]:
    """The remaining rows, and a share of the rows by a fixed random choice."""
    if test is None:
        raise InputError("recipe: public.share is of the public test rows, and this data has none")
    count = len(test[1])
    taken = round(share * count)
    if not 0 < taken < count:
        raise InputError(f"recipe: public.share {share:g} of {count} public rows leaves a part empty")
    chosen = np.zeros(count, np.bool_)
    chosen[np.random.Generator(np.random.PCG64(0)).permutation(count)[:taken]] = True
    places = torch.from_numpy(chosen)
    return (test[0][~places], test[1][~places]), (test[0][places], test[1][places])
