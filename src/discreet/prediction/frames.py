"""Predictions for rows in memory: a frame of pandas or polars, or a table of Arrow, and one of its kind comes back."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from discreet.core.errors import InputError, kind_of
from discreet.data.private.arrow_frames import ArrowTable
from discreet.data.tables.files.pandas_frames import of_pandas
from discreet.prediction.answers import answers, of_scores
from discreet.prediction.load import Predictor, refuse_other

_UNLIKE = (pa.ArrowException, TypeError, ValueError)
"""Errors of pyarrow about values that no column can hold."""


def predict_frame(predictor: Predictor, frame: Any, keep: tuple[str, ...] = ()) -> Any:
    """The columns that `discreet predict` writes, for the rows of a frame, in a frame of the same kind.

    `frame`: of pandas or polars, or a table of Arrow. For a model of a table with a schema it has the columns of the
    schema; else its columns side by side are the inputs. `keep`: columns that are copied (models of tables).
    `InputError` if the rows do not fit the model.
    """
    refuse_other(predictor)
    table = _table(frame, predictor.spec.table)
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
                said = str(error).replace(f"{path}:", "the frame, whose rows count from 1 here:")
                raise InputError(said.replace(str(path), "the frame")) from None
    return _as_given(pa.table(found), frame, keep)


def _table(frame: Any, table: Mapping[str, Any] | None) -> pa.Table:
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        if table is not None and len({*map(str, frame.columns)}) == len(frame.columns):
            return of_pandas(frame, table["schema"]["columns"])
        try:
            return pa.Table.from_pandas(frame, preserve_index=False)
        except _UNLIKE:
            raise InputError(_mixed(frame)) from None
    if hasattr(frame, "__arrow_c_stream__"):
        try:
            return pa.table(frame)
        except _UNLIKE:
            raise InputError(
                f"{kind_of(frame)} is no table; give a frame: of one row of pandas, frame.iloc[[0]]"
            ) from None
    raise InputError(f"give a frame of pandas or polars or a table of Arrow, got {type(frame).__name__}")


def _mixed(frame: Any) -> str:
    """The message for a frame of pandas that Arrow does not take, with the name of the column."""
    for name in frame.columns:
        try:
            pa.array(frame[name], from_pandas=True)
        except _UNLIKE:
            return (
                f"the column {str(name)!r} has values of several types, or of one that Arrow does not have; bring them "
                "to one, for example with astype(str)"
            )
    return "the frame cannot be read as a table of Arrow; give each column a name of its own, and values of one type"


def _as_given(found: pa.Table, frame: Any, keep: tuple[str, ...]) -> Any:
    if isinstance(frame, pa.Table):
        return found
    if hasattr(frame, "iloc"):
        answered = found.to_pandas()
        answered.index = frame.index
        for name in frame.columns:
            if str(name) in keep:
                answered[str(name)] = frame[name]
        return answered
    return type(frame)(found)
