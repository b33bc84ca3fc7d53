"""The model spec of a recipe, for the published folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.certificate.described import About, OnPublicRows
from discreet.certificate.model_spec import ModelSpec, Named

if TYPE_CHECKING:  # whoever predicts needs neither recipes nor training
    from discreet.data import Split
    from discreet.data.tables import Encoder
    from discreet.recipes import Recipe


def spec_of(recipe: Recipe, split: Split, about: About | None = None) -> ModelSpec:
    """The recipe's model and the preparation of its inputs, for rows like those of `split`."""
    rows = split.row_shape
    steps = _features(recipe, rows)
    if recipe.components is not None:
        steps.append(Named("components"))
    return ModelSpec(
        model=_model(recipe),
        inputs=rows,
        preprocessing=tuple(steps),
        data=recipe.data.name,
        outputs="numbers" if split.train[1].is_floating_point() else "classes",
        about=about,
    )


def spec_of_table(
    recipe: Recipe, encoder: Encoder, about: About | None = None, public_rows: OnPublicRows | None = None
) -> ModelSpec:
    """The recipe's model, the encoding of table rows as its inputs, and the parts for people."""
    return ModelSpec(
        model=_model(recipe),
        inputs=encoder.shape,
        preprocessing=tuple(_features(recipe, encoder.shape)),
        data=recipe.data.name,
        outputs="classes" if encoder.task == "classes" else "numbers",
        table=encoder.to_json(),
        about=about,
        public_rows=public_rows,
    )


def _model(recipe: Recipe) -> Named:
    return Named(recipe.model.name, recipe.described_model.model_dump(mode="json", exclude={"name"}))


def _features(recipe: Recipe, shape: tuple[int, ...]) -> list[Named]:
    if not recipe.features:
        return []
    parts = [part.model_dump(mode="json") for part in recipe.features]
    return [Named("features", {"parts": parts, "shape": list(shape)})]
