"""Effects of columns on a model's answers, from the model and public rows alone.

| figure      | of                                                                                       |
|-------------|------------------------------------------------------------------------------------------|
| importance  | how much worse the score is with the column's values shuffled (Breiman 2001)             |
| effect      | the mean answer with the column set to one value in every row (Friedman 2001)            |
"""

from __future__ import annotations

import datetime
from collections.abc import Callable

import numpy as np

from discreet.certificate.described import Effect, Weight
from discreet.core.array_types import Array
from discreet.data.tables.columns import EPOCH, Date, Number
from discreet.data.tables.encoded_columns import amounts_at, bounds_of
from discreet.data.tables.encoder import Encoder

Answer = Callable[[Array], Array]
"""Encoded rows (rows, features) to decoded outputs (rows, outputs)."""

_ROWS = 1000
_SHUFFLES = 5
_PLACES = 11
_MOST_CATEGORIES = 12
_DRAWN = 4
"""The number of columns, those with the largest importance, whose effects are computed."""


def importances(answer: Answer, inputs: Array, worse: Callable[[Array], float], encoder: Encoder) -> list[Weight]:
    """Importances of all columns, largest first: mean and deviation of five shuffles. `worse` maps answers to all
    `inputs` to a score, larger for worse ones. Seed 0."""
    shuffler, known = np.random.Generator(np.random.PCG64(0)), worse(answer(inputs))
    found = []
    for place, name in enumerate(encoder.schema.features):
        losses = []
        for _ in range(_SHUFFLES):
            changed = inputs.copy()
            changed[:, place] = shuffler.permutation(changed[:, place])
            losses.append(worse(answer(changed)) - known)
        found.append(Weight(column=name, loss=float(np.mean(losses)), deviation=float(np.std(losses))))
    return sorted(found, key=lambda one: -one.loss)


def effects(answer: Answer, inputs: Array, encoder: Encoder, columns: list[str]) -> list[Effect]:
    """Effects of the first four `columns` that have few categories or a range, on the last output."""
    found: list[Effect] = []
    for name in columns:
        if len(found) == _DRAWN:
            break
        place = encoder.schema.features.index(name)
        values, codes = _grid(encoder, name, place)
        if not values:
            continue
        answers = []
        for code in codes:
            changed = inputs[:_ROWS].copy()
            changed[:, place] = code
            answers.append(float(answer(changed)[:, -1].mean()))
        found.append(Effect(column=name, values=tuple(values), answers=tuple(answers)))
    return found


def _grid(encoder: Encoder, name: str, place: int) -> tuple[list[float | str], Array]:
    """Values of a column for people, with their encoding; empty for a column with many categories."""
    column, size = encoder.schema.columns[name], encoder.kinds[place]
    if isinstance(column, Number | Date):
        places = np.linspace(0.0, 1.0, _PLACES)
        amounts = amounts_at(column, bounds_of(name, column), places)
        if isinstance(column, Date):
            return [(EPOCH + datetime.timedelta(days=round(float(day)))).isoformat() for day in amounts], places
        return [float(f"{amount:.6g}") for amount in amounts], places
    names = encoder.categories(name)
    if len(names) > _MOST_CATEGORIES:
        return [], np.empty(0)
    return list(names), (np.arange(len(names)) + 0.5) / size
