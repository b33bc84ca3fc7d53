"""How long the run of a recipe will take on this machine, from a few private steps on random data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.core.errors import DiscreetError

if TYPE_CHECKING:
    import torch
    from torch import nn

    from discreet.clipping import Criterion
    from discreet.plan import AdaptivePlan, Plan
    from discreet.recipes import Recipe


def expected(recipe: Recipe, plan: Plan | AdaptivePlan) -> float | None:
    """Seconds, about, with evaluations where the size of the public data is known.

    None where the recipe does not tell the shape of its data, or its steps cannot be tried.
    """
    from discreet.recipes.assemble import criterion_for
    from discreet.recipes.example import PUBLIC_ROWS
    from discreet.training.probe import evaluation_seconds, seconds

    example = recipe.example()
    if example is None:
        return None

    def make() -> tuple[nn.Module, Criterion, torch.optim.Optimizer]:
        model = recipe.build_model()
        return model, criterion_for(example[1].is_floating_point()), recipe.build_optimizer(model)

    try:
        steps = seconds(plan, make, example, engine=recipe.engine, noise=recipe.noise)
        every = recipe.evaluate_every or max(1, plan.charges // 20)
        rows = PUBLIC_ROWS.get(recipe.data.name, 0) * (plan.charges // every)
        return steps + (evaluation_seconds(make, example, rows) if rows else 0.0)
    except DiscreetError:  # the run itself will say what is wrong
        return None


def in_words(seconds: float) -> str:
    """For people, who need no more than two digits."""
    for unit, length in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * length:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds)} seconds"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
