"""A model's predictions on new rows as named columns: the class, a probability of each class, or amounts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from torch import Tensor

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data.tables import Date, Encoder, image_paths
from discreet.prediction.load import Predictor
from discreet.prediction.row_files import read_rows
from discreet.prediction.table_rows import copied_columns, predict_table

PROBABILITY = "probability"
LEVEL = "0.9"
"""An amount comes with an interval that holds the truth of nine new rows in ten, if they are like the public rows."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Columns of equal length. Figures are float64, and NaN in rows that the schema drops; days are date32, names of
    classes and paths are texts, and null there. Without a schema, `class` is a number."""

    columns: dict[str, pa.Array]
    digits: int
    """Significant digits of its figures for people."""


def answers(predictor: Predictor, path: Path, keep: Sequence[str] = ()) -> Answers:
    """The model's predictions on the rows of a file, after the columns of the file that `keep` names.

    `InputError` if the rows do not fit the model, or for a missing column.
    """
    if predictor.spec.table is None:
        if keep:
            raise InputError("--keep copies columns of a table; this model was trained on arrays, which have none")
        return of_scores(predictor.scores(read_rows(path, predictor.spec.inputs)), predictor.spec.outputs)
    encoder, found = predict_table(predictor, path)
    said = _of_table(encoder, found, {} if predictor.spec.public_rows is None else predictor.spec.public_rows.errors)
    paths = image_paths(path, encoder)
    first = {} if paths is None else {encoder.schema.features[0]: pa.array(paths)}
    copied = copied_columns(path, encoder, keep)
    twice = sorted(set(copied) & {*first, *said.columns})
    if twice:
        raise InputError(f"--keep {twice[0]}: the predictions have a column of that name already; leave it out")
    return Answers(copied | first | said.columns, said.digits)


def of_scores(scores: Tensor, outputs: str | None) -> Answers:
    """The columns for outputs of a model that knows no schema."""
    if outputs == "classes":
        shares = scores.softmax(dim=1).double().numpy()
        best = shares.argmax(axis=1)
        return Answers({"class": pa.array(best), **shares_of(shares, best, map(str, range(shares.shape[1])))}, 6)
    rows = scores.reshape(len(scores), -1).double().numpy()
    return Answers({f"output_{place}": pa.array(column) for place, column in enumerate(rows.T)}, 9)


def _of_table(encoder: Encoder, found: Array, errors: Mapping[str, float]) -> Answers:
    names = encoder.classes
    if encoder.task == "classes":
        known, best = ~np.isnan(found[:, 0]), np.nan_to_num(found).argmax(axis=1)
        chosen = pa.array(
            [names[place] if said else None for place, said in zip(best, known, strict=True)], pa.string()
        )
        return Answers({encoder.schema.target[0]: chosen, **shares_of(found, best, names)}, 6)
    columns = {name: _amounts(encoder, name, column) for name, column in zip(names, found.T, strict=True)}
    if encoder.task == "regression" and LEVEL in errors:
        low, high = encoder.range_of_target
        least, most = np.maximum(found[:, 0] - errors[LEVEL], low), np.minimum(found[:, 0] + errors[LEVEL], high)
        columns[f"{names[0]}_low"] = _amounts(encoder, names[0], least, np.floor)
        columns[f"{names[0]}_high"] = _amounts(encoder, names[0], most, np.ceil)
    return Answers(columns, 6 if encoder.task == "labels" else 9)


def _amounts(encoder: Encoder, name: str, found: Array, whole: Callable[[Array], Array] = np.rint) -> pa.Array:
    """Amounts as they are, and days since 1970 as days: rounded by `whole`, and null where there is none."""
    if not isinstance(encoder.schema.columns[name], Date):
        return pa.array(found)
    return pa.array(whole(found), from_pandas=True).cast(pa.int32()).cast(pa.date32())


def shares_of(shares: Array, best: Array, names: Sequence[str] | map[str]) -> dict[str, pa.Array]:
    """The probability of the predicted class, and then of each class."""
    of_each = {f"p({name})": pa.array(column) for name, column in zip(names, shares.T, strict=True)}
    return {PROBABILITY: pa.array(shares[np.arange(len(shares)), best]), **of_each}
