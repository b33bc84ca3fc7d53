"""`Encoder`: rows of a table as a fixed number of numbers, by the schema alone and each row by itself.

| column   | encoded as                                                                  |
|----------|-----------------------------------------------------------------------------|
| number, date | its place between `low` (0) and `high` (1); -1 if it is missing         |
| category, boolean | (k + 1/2) / K for the k-th of K categories; "other" and "missing" come last, where there are any |

So every encoded value is in [0, 1] or is -1, and a model needs nothing but `kinds`. A column that a model sees alone
becomes a row of `shape`: the pixels of an image, from 0 (black) to 1; the word numbers of a text, 0 for none. Targets:

| target             | task       | encoded as                                              |
|--------------------|------------|---------------------------------------------------------|
| category, boolean  | classes    | the number of the class                                 |
| several booleans   | labels     | 0 or 1 each                                             |
| number, date       | regression | its place between `low` (-1) and `high` (1), or from    |
|                    |            | `centre` (0) in units of 2.5 times its `spread`         |
| several of these   | regression | a place each                                            |
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from discreet.core.array_types import Array, BoolArray, IntArray
from discreet.core.errors import InputError
from discreet.data.tables.amounts import amounts
from discreet.data.tables.categories import Boolean, Category, class_shares
from discreet.data.tables.columns import Date, Number
from discreet.data.tables.encoded_columns import amounts_of, bounds_of, numbers_of, places, wide
from discreet.data.tables.problems import Problems
from discreet.data.tables.schema import Schema
from discreet.data.tables.values import BadValue, Faults, Marks, codes, type_name
from discreet.data.tables.wide import FreeText, Image
from discreet.plan.pydantic_base import validate

FORMAT = "discreet-table/1"

Task = Literal["classes", "labels", "regression"]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows as numbers: `inputs` (rows, features), `targets` (rows, targets) or None, float32. `kept` (rows of the
    block,) marks the rows of the block that no treatment dropped."""

    inputs: Floats
    targets: Floats | None
    kept: BoolArray


@dataclass(frozen=True, slots=True)
class Encoder:
    """Encodes the rows of any table that fits the `schema`, whose `target` says what is predicted.

    `InputError` where ranges are not bought yet, or a treatment does not fit the target.
    """

    schema: Schema

    def __post_init__(self) -> None:
        if not self.schema.features:
            raise InputError(
                "the schema has no column to predict from; declare one that is not ignored (free text is {type: text})"
            )
        for name in self.schema.target:
            column = self.schema.columns[name]
            if getattr(column, "missing", None) == "flag" or getattr(column, "unseen", None) in ("other", "missing"):
                raise InputError(f"schema: {name} is predicted, so what is missing or unseen there is refuse or drop")

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Encoder:
        """The encoder that `to_json` describes; `InputError` if it is none."""
        if facts.get("format") != FORMAT:
            raise InputError(f"this is no encoding of tables that is known here: {facts.get('format')!r:.60}")
        return cls(validate(Schema, facts.get("schema"), "schema of the encoding"))

    def to_json(self) -> dict[str, Any]:
        """The encoder as JSON."""
        return {"format": FORMAT, "schema": self.schema.model_dump(mode="json")}

    @property
    def kinds(self) -> tuple[int, ...]:
        """For every feature 0 if it is a number, else its number of categories, with "other" and "missing"."""
        return tuple(self._size(name) for name in self.schema.features)

    @property
    def binary(self) -> tuple[int, ...]:
        """The indices of features with two categories."""
        return tuple(place for place, name in enumerate(self.schema.features) if len(self.categories(name)) == 2)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row of inputs."""
        return (len(self.kinds),) if self.schema.wide is None else self.schema.wide[1].shape

    @property
    def whole(self) -> bool:
        """Whether inputs are whole numbers (words)."""
        return self.schema.wide is not None and isinstance(self.schema.wide[1], FreeText)

    @property
    def task(self) -> Task:
        """The task: classes, labels or regression."""
        if isinstance(self.schema.columns[self.schema.target[0]], Number | Date):
            return "regression"
        return "labels" if len(self.schema.target) > 1 else "classes"

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, of the labels, or of the numbers that are predicted: one for each output."""
        column = self.schema.columns[self.schema.target[0]]
        if self.task == "classes":
            assert isinstance(column, Category | Boolean)
            return column.categories
        return self.schema.target

    @property
    def weights(self) -> tuple[float, ...] | None:
        """The declared weights of the classes, 1 where none is given; None if none is."""
        columns = [self.schema.columns[name] for name in self.schema.target]
        given = [column for column in columns if isinstance(column, Category | Boolean)]
        if not any(column.weights for column in given):
            return None
        if self.task == "labels":
            return tuple(column.weights.get(column.categories[1], 1.0) for column in given)
        return tuple(given[0].weights.get(name, 1.0) for name in self.classes)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """The declared shares of the classes, with a sum of 1; of labels those of true, 1/2 where none is declared.
        None if none is."""
        columns = [self.schema.columns[name] for name in self.schema.target]
        found = [class_shares(column) for column in columns if isinstance(column, Category | Boolean)]
        if not any(found):
            return None
        return found[0] if self.task == "classes" else tuple(0.5 if one is None else one[1] for one in found)

    def encode(
        self,
        block: pa.RecordBatch | pa.Table,
        start: int = 0,
        *,
        targets: bool = True,
        problems: Problems | None = None,
        show: bool = True,
        in_memory: bool = False,
    ) -> Encoded:
        """The rows of a block, the first of which is row `start` of the table. Messages count rows of a file from 1,
        and rows `in_memory` from 0, as frames do.

        Refused values are recorded in `problems`, and their encoding is meaningless; without `problems` the first one
        is an `InputError` that names row and column, and the value with `show`. With `targets` False the target columns
        may be missing.
        """
        kept = np.ones(block.num_rows, np.bool_)
        marks = replace(self.schema.marks, show=show)
        faults: list[tuple[int, str]] = []

        def encoded(name: str) -> Array:
            found, wrong = self._column(name, block, kept, marks)
            faults.extend((row, f"column {name!r}: {fault}") for row, fault in wrong.items())
            return found

        inputs = np.zeros((block.num_rows, math.prod(self.shape)), np.float32)
        found = np.zeros((block.num_rows, len(self.schema.target) * targets), np.float32)
        if self.schema.wide is not None:
            inputs[:] = encoded(self.schema.wide[0])
        else:
            for place, name in enumerate(self.schema.features):
                inputs[:, place] = encoded(name)
        for place, name in enumerate(self.schema.target if targets else ()):
            found[:, place] = encoded(name)
        for row, fault in sorted(faults):
            if problems is None:
                at = f"row {start + row}, counted from 0" if in_memory else f"row {start + row + 1}"
                raise InputError(f"{at}, {fault}")
            problems.add(fault, start + row + 1)
        if kept.all():
            return Encoded(inputs, found if targets else None, kept)
        return Encoded(inputs[kept], found[kept] if targets else None, kept)

    def decode(self, outputs: Array) -> Array:
        """A model's outputs (rows, outputs) as probabilities of classes or labels, or as amounts in their unit."""
        outputs = np.asarray(outputs, np.float64)
        if self.task == "labels":
            found: Array = np.exp(-np.logaddexp(0.0, -outputs))
            return found
        if self.task == "classes":
            shifted = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            shares: Array = shifted / shifted.sum(axis=1, keepdims=True)
            return shares
        return np.stack([self._amounts(name, rows) for name, rows in zip(self.classes, outputs.T, strict=True)], axis=1)

    def _amounts(self, name: str, outputs: Array) -> Array:
        column = self.schema.columns[name]
        assert isinstance(column, Number | Date)
        return amounts_of(column, bounds_of(name, column), outputs)

    @property
    def range_of_target(self) -> tuple[float, float]:
        """The declared range of the first number that is predicted."""
        column = self.schema.columns[self.schema.target[0]]
        assert isinstance(column, Number | Date)
        return bounds_of(self.schema.target[0], column)

    def clipped(self, block: pa.RecordBatch) -> BoolArray:
        """The targets of a block that are outside of their range, and so encoded as its end: a mask (rows, targets)."""
        found = np.zeros((block.num_rows, len(self.schema.target)), np.bool_)
        for place, name in enumerate(self.schema.target):
            column = self.schema.columns[name]
            if isinstance(column, Number | Date) and column.outside == "clip":
                low, high = bounds_of(name, column)
                said, _ = amounts(block.column(name), column, self.schema.marks)
                found[:, place] = (said < low) | (said > high)
        return found

    def informative(self, inputs: Floats) -> BoolArray:
        """Where encoded features (rows, features) are informative: neither missing nor "other"."""
        if self.schema.wide is not None:
            says: BoolArray = (inputs != 0).any(axis=1, keepdims=True) | (not self.whole)  # a black image is one
            return says
        sizes = zip(self.schema.features, self.kinds, strict=True)
        known = [self._known(name) / size if size else np.inf for name, size in sizes]
        found: BoolArray = (inputs >= 0) & (inputs < np.array(known))
        return found

    def _known(self, name: str) -> int:
        """The number of informative categories. For bought categories "other" counts too: a column without bought
        categories is no fault of the table."""
        column = self.schema.columns[name]
        assert isinstance(column, Category | Boolean)
        return column.width + (isinstance(column, Category) and column.room is not None)

    def categories(self, name: str) -> tuple[str, ...]:
        """The declared categories of a column; () of a number."""
        column = self.schema.columns[name]
        return column.categories if isinstance(column, Category | Boolean) else ()

    def codes(self, name: str, block: pa.RecordBatch) -> IntArray:
        """The numbers of the categories of a column, below 0 where there is none."""
        column = self.schema.columns[name]
        assert isinstance(column, Category | Boolean)
        return codes(block.column(name), column, self.schema.marks)

    def _column(
        self, name: str, block: pa.RecordBatch | pa.Table, kept: BoolArray, marks: Marks
    ) -> tuple[Array, Faults]:
        """Rows (rows,), or (rows, width) of a wide column, and faults; `kept` loses rows that a treatment drops."""
        column, values = self.schema.columns[name], block.column(name)
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        predicted = name in self.schema.target
        try:
            if isinstance(column, FreeText | Image):
                return wide(column, values, marks, kept)
            if isinstance(column, Number | Date):
                return places(column, bounds_of(name, column), values, marks, kept, predicted=predicted)
            assert isinstance(column, Category | Boolean)
            return numbers_of(column, self._size(name), values, marks, kept, predicted=predicted)
        except BadValue as bad:
            return np.zeros(1), {bad.row: str(bad)}
        except (pa.ArrowException, UnicodeError, OverflowError) as error:  # Arrow does not convert such values
            kind, why = type_name(values.type, marks), f" ({' '.join(str(error).split())})" if marks.show else ""
            fault = f"the column is of type {kind}, and cannot be read as {column.type}{why}; correct either"
            return np.zeros(1), {0: fault}

    def _size(self, name: str) -> int:
        column = self.schema.columns[name]
        if not isinstance(column, Category | Boolean):
            return 0
        if isinstance(column, Category) and column.buy is not None:
            raise InputError(f"schema: the categories of {name} are not bought yet")
        extra = (column.unseen or "other") == "other"
        return column.width + extra + ((column.missing or "flag") == "flag")
