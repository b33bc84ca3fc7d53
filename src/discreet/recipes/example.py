"""One random example in the shape of a recipe's data, if the recipe or its table's schema tells the shape."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from discreet.data.tables import Encoder
from discreet.data.tables.wide import FreeText
from discreet.recipes.recipe import Recipe

SHAPES: Mapping[str, tuple[tuple[int, ...], int]] = {"digits": ((64,), 10), "mnist": ((1, 28, 28), 10)}
"""Input shape and number of classes of data sets with a fixed shape."""

PUBLIC_ROWS: Mapping[str, int] = {"digits": 360, "mnist": 10_000}
"""Numbers of public test rows of these data sets."""

_WORDS = 10
"""Number of different words in a random text; a vocabulary may be small."""


def example(recipe: Recipe) -> tuple[Tensor, Tensor] | None:
    """(input, target) with a batch axis of length 1; None if neither data set nor model tells the shape.

    With one output the target is a number, otherwise a class.
    """
    arguments = recipe.model.model_extra or {}
    if recipe.data.name in SHAPES:
        shape, classes = SHAPES[recipe.data.name]
    elif isinstance(arguments.get("inputs"), int) and isinstance(arguments.get("outputs"), int):
        shape, classes = (arguments["inputs"],), arguments["outputs"]
    else:
        return None
    shape = shape if recipe.components is None else (recipe.components.count,)
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand((1, *shape), generator=generator)
    return inputs, torch.zeros(1, 1) if classes == 1 else torch.zeros(1, dtype=torch.int64)


def example_row(encoder: Encoder, features: int | None) -> tuple[Tensor, Tensor]:
    """(input, target) like a row of a table, with a batch axis of length 1. `features`: their number, if the model sees
    fixed features."""
    shape = encoder.shape if features is None else (features,)
    generator = torch.Generator().manual_seed(0)
    numbers = torch.rand((1, *shape), generator=generator)
    wide = encoder.schema.wide
    if wide is not None and isinstance(wide[1], FreeText):
        inputs = (1 + numbers * min(_WORDS, wide[1].words)).long().clamp(max=wide[1].words)
    else:
        inputs = numbers
    outputs = len(encoder.classes)
    return inputs, torch.zeros(1, dtype=torch.int64) if encoder.task == "classes" else torch.zeros(1, outputs)
