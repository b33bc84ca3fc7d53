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
    """Seconds, about; None where the recipe does not tell the shape of its data, or its steps cannot be tried."""
    from discreet.cli.job import criterion_for
    from discreet.training.probe import seconds

    example = recipe.example()
    if example is None:
        return None

    def make() -> tuple[nn.Module, Criterion, torch.optim.Optimizer]:
        model = recipe.build_model()
        return model, criterion_for(example[1].is_floating_point()), recipe.build_optimizer(model)

    try:
        return seconds(plan, make, example, engine=recipe.engine, noise=recipe.noise)
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
