"""The defaults chosen for a table, and why: one sentence for each setting that the user did not change."""

from __future__ import annotations

from collections.abc import Iterator

from discreet.recipes import Recipe
from discreet.recipes.table_recipe import table_recipe


def defaults_in_words(recipe: Recipe) -> tuple[str, ...]:
    """Sentences of plain text; none for a recipe that is not of a table's columns."""
    if recipe.table is None or recipe.table.wide is not None or recipe.population is None:
        return ()
    chosen = Recipe.model_validate(table_recipe(recipe.table, recipe.epsilon, None, queries=recipe.center is not None))
    return tuple(_sentences(recipe, chosen))


def _sentences(recipe: Recipe, chosen: Recipe) -> Iterator[str]:
    signal = f"{recipe.population:,.15g} people at epsilon {recipe.epsilon:g}"
    hidden, columns = chosen.model.hidden, len(chosen.model.kinds)  # type: ignore[attr-defined]
    if recipe.model == chosen.model:
        if hidden:
            yield f"A hidden layer of {hidden[0]} units: {signal} are enough for {columns} columns."
        else:
            yield f"A linear model: of {signal}, noise would drown a hidden layer on {columns} columns."
    if (recipe.sampling, recipe.rate, recipe.steps) == (chosen.sampling, chosen.rate, chosen.steps):
        if recipe.rate is None:
            yield f"All rows in each of {recipe.steps} steps: of so few, that takes the least noise."
        else:
            batch = recipe.rate * recipe.population
            yield f"{recipe.steps:,} steps on batches of about {batch:,.4g}: as discreet suggest proposes for {signal}."
    if recipe.center is not None and recipe.center == chosen.center:
        yield "The mean of all rows, with noise, is subtracted from each: what rows have in common tells none apart."
    if recipe.clip_norm == chosen.clip_norm:
        yield f"Clip norm {recipe.clip_norm:g}: part of the longest gradient, which keeps more signal than noise."
    if recipe.optimizer == chosen.optimizer:
        rate = recipe.optimizer.lr  # type: ignore[attr-defined]
        yield f"Learning rate {rate:g}: as fast as the noise of all steps together allows."
    if recipe.delta == chosen.delta:
        yield f"Delta {recipe.delta:g}: a power of ten below 1 / population."
    if recipe.averaging == chosen.averaging and recipe.averaging is not None:
        yield "The published weights are the average over the second half of the steps."
