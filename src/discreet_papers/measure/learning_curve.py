"""A run on a part of its training rows: private, or the same network without clipping and noise. Loads torch."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from discreet.clipping import Criterion
from discreet.core.errors import InputError
from discreet.data import Split
from discreet.data.sets.splits import Part
from discreet.recipes import Recipe
from discreet.recipes.assemble import criterion_for
from discreet.training.public.evaluation import evaluate
from discreet_papers.measure.runs import data_of, recipe_of, take_on
from discreet_papers.part import Cell, Setting


def run(cell: Cell, setting: Setting) -> dict[str, Any]:
    """The metrics on the test rows. The rows trained on follow from the seed, and are the same with and without
    privacy."""
    recipe = recipe_of(cell.facts, cell.seed, cell.name)
    split = part_of(data_of(recipe, setting), cell.facts["share"], cell.seed or 0)
    rows = {"rows": len(split.train[1])}
    return rows | (take_on if cell.facts["private"] else _take_openly)(recipe, split, cell, setting)


def part_of(split: Split, share: float, seed: int) -> Split:
    """The split with a random share of its training rows. Those of a seed that a smaller share has, a larger one has
    too."""
    rows = len(split.train[1])
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
    kept = order[: round(share * rows)].sort().values
    inputs, targets = split.train
    units, ids = (None if one is None else one[kept.numpy()] for one in (split.units, split.ids))
    return replace(split, train=(inputs[kept], targets[kept]), units=units, ids=ids)


def _take_openly(recipe: Recipe, split: Split, cell: Cell, setting: Setting) -> dict[str, Any]:
    """The recipe's network, optimizer, batches and steps, with neither clipping nor noise: not private, so without an
    epsilon.

    `stopped` is the metric where a run on nine tenths of these rows was best by the other tenth: [step, metric].
    """
    if split.test is None:
        raise InputError(f"{cell.name}: a run in the open needs public test rows")
    inputs, targets = split.train
    order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(cell.seed or 0))
    learnt, judged = order[len(order) // 10 :], order[: len(order) // 10]
    criterion = criterion_for(targets.is_floating_point(), split.values)
    course = partial(_course, recipe, criterion, cell.seed or 0)
    tried = course((inputs[learnt], targets[learnt]), (inputs[judged], targets[judged]))
    taken = course((inputs, targets), split.test)
    sign = -1 if cell.facts["metric"] == "accuracy" else 1
    best = min(tried, key=lambda step: sign * tried[step][cell.facts["metric"]])
    curve = [[step, round(found[cell.facts["metric"]], 5)] for step, found in taken.items()]
    last = {name: round(value, 6) for name, value in taken[max(taken)].items()}
    return {"metrics": last, "stopped": [best, round(taken[best][cell.facts["metric"]], 6)], "curve": curve}


def _course(recipe: Recipe, criterion: Criterion, seed: int, rows: Part, test: Part) -> dict[int, dict[str, float]]:
    """The metrics on `test` after some of the steps on `rows`, by step."""
    if recipe.rate is None or recipe.steps is None:
        raise InputError("a run in the open needs a rate and steps")
    (inputs, targets), every = rows, recipe.evaluate_every or recipe.steps
    model = recipe.build_model()
    optimizer = recipe.build_optimizer(model)
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for step in range(1, recipe.steps + 1):
        drawn = (torch.rand(len(inputs), generator=generator) < recipe.rate).nonzero()[:, 0]
        optimizer.zero_grad()
        if len(drawn):
            share = len(drawn) / (recipe.rate * len(inputs))
            torch.autograd.backward(share * criterion(model(inputs[drawn]), targets[drawn]))
        optimizer.step()
        if step % every == 0 or step == recipe.steps:
            found[step] = evaluate(model, criterion, *test)
    return found
