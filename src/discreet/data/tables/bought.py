"""Ranges that are bought: two private quantiles for each column, before the first step and covered by its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from discreet.core.adjacency import Adjacency
from discreet.core.events import Event
from discreet.data.tables.columns import Number
from discreet.data.tables.reading import blocks
from discreet.data.tables.schema import Schema
from discreet.data.tables.values import Marks, amounts
from discreet.queries import Account, Quantile, release

Range = tuple[float, float]


def columns_bought(schema: Schema) -> dict[str, Number]:
    """The columns whose ranges are bought, in order."""
    return {
        name: column for name, column in schema.columns.items() if isinstance(column, Number) and column.buy is not None
    }


def ranges_bought(schema: Schema, adjacency: Adjacency) -> tuple[Event, ...]:
    """What buying the ranges releases, in order: two choices for each column."""
    return tuple(query.event(adjacency) for column in columns_bought(schema).values() for query in _quantiles(column))


def with_ranges(schema: Schema, ranges: Mapping[str, Sequence[float]]) -> Schema:
    """The schema with these ranges for the columns whose ranges are bought."""
    columns = {
        name: column.with_bounds(*ranges[name]).model_dump(mode="json")
        for name, column in columns_bought(schema).items()
    }
    return schema.changed(columns=schema.model_dump(mode="json")["columns"] | columns)


def provisional(schema: Schema) -> Schema:
    """The schema with the public ranges in which quantiles are looked for."""
    return with_ranges(
        schema, {name: column.buy.between for name, column in columns_bought(schema).items() if column.buy}
    )


def buy_ranges(path: Path, schema: Schema, account: Account) -> dict[str, Range]:
    """Two quantiles of each column, charged to `account`. Missing values count on neither side of a quantile."""
    return {
        name: _range(_values(path, schema, name), column, account) for name, column in columns_bought(schema).items()
    }


def _values(path: Path, schema: Schema, name: str) -> np.ndarray:
    marks, column = Marks(schema.missing, schema.csv.decimal, schema.csv.trim), schema.columns[name]
    assert isinstance(column, Number)
    return np.concatenate([amounts(block.column(0), column, marks) for block in blocks(path, schema, [name])])


def _range(values: np.ndarray, column: Number, account: Account) -> Range:
    """The quantiles, in order and apart: that is computed from them alone."""
    queries = _quantiles(column)
    low, high = sorted(float(value) for value in release(values[:, np.newaxis], queries, account))
    step = queries[0].grid[1] - queries[0].grid[0]
    return (low, high) if low < high else (low - step, high + step)


def _quantiles(column: Number) -> tuple[Quantile, Quantile]:
    buy = column.buy
    assert buy is not None
    low, high = buy.between
    return Quantile(buy.share, low, high, buy.epsilon), Quantile(1 - buy.share, low, high, buy.epsilon)
