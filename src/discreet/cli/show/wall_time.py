"""The expected time of a recipe's run on this machine, from a few private steps on random data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from discreet.core.errors import DiscreetError

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from discreet.clipping import Criterion
    from discreet.plan import AdaptivePlan, Plan
    from discreet.recipes import Recipe
    from discreet.training import PublicBatches


def expected(recipe: Recipe, plan: Plan | AdaptivePlan, joining: Mapping[str, Any] | None = None) -> float | None:
    """Estimated seconds, with evaluations if the size of the public data is known.

    None if the recipe does not tell the shape of its data, or its steps cannot be tried. `joining`: the number and
    weight of public rows that join every step, if known.
    """
    from discreet.jobs.random_example import example_of
    from discreet.recipes.example import PUBLIC_ROWS
    from discreet.training.preflight.wall_time import evaluation_seconds, seconds

    found = example_of(recipe)
    if found is None:
        return None
    example, criterion = found

    def make() -> tuple[nn.Module, Criterion, torch.optim.Optimizer]:
        model = recipe.build_model()
        return model, criterion, recipe.build_optimizer(model)

    from discreet.recipes.assemble import engine_of

    try:
        steps = seconds(plan, make, example, engine=engine_of(recipe), public=_rows(example, joining))
        every = recipe.evaluate_every or max(1, plan.steps // 20)
        rows = PUBLIC_ROWS.get(recipe.data.name, 0) * (plan.steps // every)
        return steps + (evaluation_seconds(make, example, rows) if rows else 0.0)
    except DiscreetError:  # the run itself will say what is wrong
        return None


def _rows(example: tuple[Tensor, Tensor], joining: Mapping[str, Any] | None) -> PublicBatches | None:
    """Random public rows, as many as join a step."""
    from discreet.training import PublicBatches

    if joining is None or "rows" not in joining:
        return None
    inputs, targets = (tensor.expand(joining["batch"], *tensor.shape[1:]).contiguous() for tensor in example)
    return PublicBatches(inputs, targets, joining["weight"])


def in_words(seconds: float) -> str:
    """Seconds for people, with two digits."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds)} seconds"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
