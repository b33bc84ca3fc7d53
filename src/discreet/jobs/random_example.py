"""A random example and the loss of a recipe, without a look at private rows where the recipe tells their shape."""

from __future__ import annotations

from torch import Tensor

from discreet.clipping import Criterion
from discreet.data.tables import Encoder, provisional
from discreet.jobs.tables.table_loss import loss_of
from discreet.recipes import Recipe
from discreet.recipes.assemble import criterion_for
from discreet.recipes.example import SHAPES, example, example_row
from discreet.recipes.sections.fixed_features import build_front_end

Example = tuple[Tensor, Tensor]
"""An input and a target, with a batch axis of length 1."""


def example_of(recipe: Recipe) -> tuple[Example, Criterion] | None:
    """A random example and the loss of a recipe, if it tells the shape of its data."""
    return _of_table(recipe) if recipe.table is not None else _of_arrays(recipe)


def _of_arrays(recipe: Recipe) -> tuple[Example, Criterion] | None:
    found = example(recipe)
    if found is None:
        return None
    inputs, targets = found
    if recipe.features and recipe.components is None and recipe.data.name in SHAPES:  # else features have that shape
        inputs = build_front_end(recipe.features, inputs.shape[1:])(inputs)
    return (inputs, targets), criterion_for(targets.is_floating_point())


def _of_table(recipe: Recipe) -> tuple[Example, Criterion] | None:
    """The same of a table, by its schema."""
    assert recipe.table is not None
    encoder = Encoder(provisional(recipe.table))
    width = (recipe.model.model_extra or {}).get("inputs") if recipe.features else None
    return None if recipe.features and width is None else (example_row(encoder, width), loss_of(encoder))
