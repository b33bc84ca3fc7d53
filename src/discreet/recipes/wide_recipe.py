"""The recipe of images or texts, from declared facts alone: the schema, the population and the budget.

| what          | of images                                                  | of texts                               |
|---------------|------------------------------------------------------------|----------------------------------------|
| batch, steps  | as `discreet suggest` does                                 | all rows, 60 steps                     |
| model         | a linear layer on fixed features (`features_for`)          | a linear layer on which words occur    |
| clip norm     | 0.5, of rows of features of norm 10                        | 0.7, of rows of norm 1                 |
| learning rate | such that the noise of all steps together moves an output by about 2 (images), 0.75 (texts)         |
| averaging     | of the second half of the steps                                                                     |
| center        | of the features of up to some thousand images, bought first (`center_within`)                      |
"""

from __future__ import annotations

import math
from typing import Any

import torch

from discreet.core.adjacency import Unit
from discreet.data.tables import Encoder, Schema
from discreet.data.tables.wide import FreeText, Image
from discreet.features.front_ends import SIZE
from discreet.plan import NoSampling, Plan
from discreet.plan.suggest import suggest
from discreet.recipes.sections.center import after_center, center_within
from discreet.recipes.sections.fixed_features import Features, build_front_end

_SIGNAL = {"grey": 10_000, "rgb": 20_000}
"""The least population x epsilon for which the many features of scattering are better than few."""

_COLOURS = 0.2
"""The mean colours' share of the squared norm of a row."""

_SMALL, _LARGE = 16, 48
"""Sides in pixels between which scattering is worth its features."""

_MOMENTUM = 0.9
MOST_EPOCHS = 50.0
_TEXT_STEPS = 60
_IMAGE_CLIP, _TEXT_CLIP = 0.5, 0.7
_IMAGE_DRIFT, _TEXT_DRIFT = 2.0, 0.75


def wide_recipe(schema: Schema, epsilon: float, delta: float | None, *, queries: bool = True) -> dict[str, Any]:
    """A recipe as data, for the image or text that a schema declares. The schema must have a population. `queries`: as
    in `table_recipe`."""
    assert schema.wide is not None
    assert schema.population is not None
    outputs, column = len(Encoder(schema).classes), schema.wide[1]
    budget = schema.population, epsilon, delta
    if isinstance(column, FreeText):
        return of_schema(schema, epsilon) | _of_texts(column, outputs, *budget)
    queries = queries and schema.unit_column is None
    return of_schema(schema, epsilon) | _of_images(column, outputs, *budget, queries=queries)


def features_for(image: Image, signal: float) -> list[dict[str, Any]]:
    """The front ends for images: strokes for grey, oriented gradients in few cells for colours and for large images.

    For images of 16 to 48 pixels a side and a large `signal` (population x epsilon), scattering adds many features:
    beside the strokes from 10,000 on (grey), and in place of gradients from 20,000 on (rgb). Gradients do not see
    colours of equal brightness, so mean colours are added.
    """
    low, high, grey = min(image.size), max(image.size), image.mode == "grey"
    many = high <= _LARGE and low >= _SMALL and signal >= _SIGNAL[image.mode]
    if grey and high <= _LARGE:
        strokes = {"name": "strokes"}
        return [{"name": "scattering", "groups": 27, "share": 0.64}, strokes | {"share": 0.36}] if many else [strokes]
    cells = 8 if high > _LARGE else 4
    edges = {"name": "scattering", "groups": 81} if many else {"name": "hog", "cell": max(2, low // cells)}
    return [edges] if grey else [edges | {"share": 1 - _COLOURS}, {"name": "colours", "share": _COLOURS}]


def _of_images(
    image: Image, outputs: int, population: float, epsilon: float, delta: float | None, *, queries: bool
) -> dict[str, Any]:
    features = features_for(image, population * epsilon)
    front_end = build_front_end([Features.model_validate(one) for one in features], image.shape)
    with torch.no_grad():
        width = front_end(torch.zeros(1, *image.shape)).shape[1]
    plan = suggest(population, epsilon, delta, most_epochs=MOST_EPOCHS, poisson=True).plan
    center = center_within(epsilon, plan.delta, population, width) if queries else None
    return {
        "features": features,
        "model": {"name": "linear", "inputs": width, "outputs": outputs},
        "clip_norm": _IMAGE_CLIP,
        "center": center,
        **of_plan(after_center(plan, center, epsilon), _IMAGE_CLIP * SIZE, _IMAGE_DRIFT),
    }


def _of_texts(text: FreeText, outputs: int, population: float, epsilon: float, delta: float | None) -> dict[str, Any]:
    delta = suggest(population, epsilon, delta, poisson=True).plan.delta if delta is None else delta
    plan = Plan.make(
        NoSampling(), population=population, steps=_TEXT_STEPS, clip_norm=_TEXT_CLIP, delta=delta
    ).calibrate(epsilon)
    return {
        "model": {"name": "word_scores", "tokens": text.words, "outputs": outputs},
        "clip_norm": _TEXT_CLIP,
        **of_plan(plan, _TEXT_CLIP, _TEXT_DRIFT),
    }


def of_schema(schema: Schema, epsilon: float) -> dict[str, Any]:
    """The part of a recipe that a schema and the budget declare, of any table."""
    return {
        "data": "table",
        "table": schema.model_dump(mode="json"),
        "population": schema.population,
        "epsilon": epsilon,
        "unit": (Unit.USER if schema.unit_column else Unit.EXAMPLE).value,
        "rows_per_unit": schema.rows_per_unit if schema.unit_column else 1,
    }


def of_plan(plan: Plan, longest: float, drift: float, fastest: float = math.inf) -> dict[str, Any]:
    """The part of a recipe that follows from a plan, of any table.

    `longest`: clip norm x norm of a row, the most by which one row moves its own output at learning rate 1. `drift`:
    how far the noise of all steps together may move it. `fastest`: the largest learning rate.
    """
    noise = longest * plan.noise[0].multiplier * math.sqrt(plan.steps) / plan.expected_batch / (1 - _MOMENTUM)
    rate = min(fastest, drift / noise)
    everyone = plan.sampling.kind == "none"
    return {
        "optimizer": {"name": "sgd", "lr": float(f"{rate:.2g}"), "momentum": _MOMENTUM},
        **({"sampling": {"kind": "none"}} if everyone else {"rate": plan.expected_batch / plan.population}),
        "steps": plan.steps,
        "delta": plan.delta,
        "averaging": {"start": plan.steps // 2},
    }
