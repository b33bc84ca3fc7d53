"""Predictions for rows in memory: a frame of pandas or polars, or a table of Arrow, and one of its kind comes back."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from discreet.core.errors import InputError
from discreet.data.private.arrow_frames import ArrowTable
from discreet.prediction.answers import answers, of_scores
from discreet.prediction.load import Predictor


def predict_frame(predictor: Predictor, frame: Any, keep: tuple[str, ...] = ()) -> Any:
    """The columns that `discreet predict` writes, for the rows of a frame, in a frame of the same kind.

    `frame`: of pandas or polars, or a table of Arrow. For a model of a table with a schema it has the columns of the
    schema; else its columns side by side are the inputs. `keep`: columns that are copied (models of tables).
    `InputError` if the rows do not fit the model.
    """
    table = _table(frame)
    if predictor.spec.table is None:
        if keep:
            raise InputError("keep copies columns of a table; this model was trained on arrays, which have none")
        parts = [*ArrowTable(table)[:].values()]
        if not parts or any(part.dtype.kind not in "fiub" for part in parts):
            raise InputError("this model takes numbers; give a frame whose columns are numbers")
        side_by_side = np.column_stack([part.reshape(len(part), -1) for part in parts])
        if predictor.spec.model is None and parts[0].ndim == 1:
            side_by_side = side_by_side.astype(np.float32)  # columns side by side are amounts, as in training
        found = of_scores(predictor.scores(side_by_side), predictor.spec.outputs).columns
    else:
        with tempfile.TemporaryDirectory() as folder:  # rows of tables are read from files, with all their checks
            path = Path(folder) / "rows.parquet"
            pyarrow.parquet.write_table(table, path)
            try:
                found = answers(predictor, path, keep).columns
            except InputError as error:
                raise InputError(str(error).replace(str(path), "the frame, whose rows count from 1 here")) from None
    return _as_given(pa.table(found), frame)


def _table(frame: Any) -> pa.Table:
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return pa.Table.from_pandas(frame, preserve_index=False)
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise InputError(f"give a frame of pandas or polars or a table of Arrow, got {type(frame).__name__}")


def _as_given(found: pa.Table, frame: Any) -> Any:
    if isinstance(frame, pa.Table):
        return found
    if hasattr(frame, "iloc"):
        answered = found.to_pandas()
        answered.index = frame.index
        return answered
    return type(frame)(found)
