"""Predictions for the rows of a table, by a model that was trained on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data.tables import Encoder, blocks, new_rows
from discreet.data.tables.files.as_written import as_written
from discreet.data.tables.files.reading import column_names
from discreet.prediction.load import Predictor, refuse_other


def encode_table(predictor: Predictor, path: str | Path) -> Array:
    """The rows of a .csv or .parquet file as the model's inputs, (rows, features), float32, by its published schema.

    These are the inputs of an ONNX file of the model. Rows that the schema drops are left out.
    """
    found = [block.inputs for block in new_rows(Path(path), _encoder(predictor))]
    if not found:
        raise InputError(f"{path} has no rows")
    return np.concatenate(found)


def predict_table(predictor: Predictor, path: str | Path) -> tuple[Encoder, Array]:
    """The model's predictions on each row of a .csv or .parquet file with the features of its schema: (rows, outputs).

    Probabilities of the classes or labels in `Encoder.classes`, or amounts in the unit of the target (days since
    1970, of a date). A row that the schema drops is all NaN. `InputError` if the model was not trained on a table, or a
    value does not fit.
    """
    encoder = _encoder(predictor)
    found = []
    for block in new_rows(Path(path), encoder):
        values = np.full((len(block.kept), len(encoder.classes)), np.nan)
        if len(block.inputs):
            values[block.kept] = encoder.decode(predictor.scores(torch.from_numpy(block.inputs)).numpy())
        found.append(values)
    if not found:
        raise InputError(f"{path} has no rows")
    return encoder, np.concatenate(found)


def _encoder(predictor: Predictor) -> Encoder:
    """The encoder of the model's table; `InputError` if it was not trained on one."""
    refuse_other(predictor)
    if predictor.spec.table is None:
        raise InputError("this model was not trained on a table with a schema; give its rows as an array")
    return Encoder.from_json(predictor.spec.table)


def copied_columns(path: str | Path, encoder: Encoder, names: Sequence[str]) -> dict[str, pa.Array]:
    """Columns of a table with new rows, unchanged; `InputError` for a missing one."""
    if not names:
        return {}
    if Path(path).is_dir():
        raise InputError("--keep copies columns of a table; a folder of images has none")
    schema = as_written(Path(path), encoder.schema, encoder.schema.features).model_copy(update={"others": "ignore"})
    lacks = [name for name in names if name not in (there := column_names(Path(path), schema.csv))]
    if lacks:
        raise InputError(f"--keep: {path} has no column {lacks[0]!r}; it has {', '.join(there)[:200]}")
    found = pa.Table.from_batches(list(blocks(Path(path), schema, names)))
    return {name: found.column(name).combine_chunks() for name in names}
