"""Ranges that are bought: a noisy histogram of each column, before the first step and covered by its plan.

Bins are public, and a person is in one of them, so a histogram is one Gaussian release of sensitivity 1. What follows
from it is free: bins below `_CLEAR` deviations of the noise count as empty, and the range is what lies between two
quantiles of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from discreet.core.arrays import Array
from discreet.core.events import Event
from discreet.data.tables.columns import Bought, Number
from discreet.data.tables.reading import blocks
from discreet.data.tables.schema import Schema
from discreet.data.tables.values import Marks, amounts
from discreet.queries import Account, Histogram, joint_event, release

Range = tuple[float, float]

_CLEAR = 4.0
"""With 64 bins, noise alone takes an empty one for full in one of 500 histograms."""


def columns_bought(schema: Schema) -> dict[str, Number]:
    """The columns whose ranges are bought, in order."""
    return {
        name: column for name, column in schema.columns.items() if isinstance(column, Number) and column.buy is not None
    }


def ranges_bought(schema: Schema) -> tuple[Event, ...]:
    """What buying the ranges releases, in order: a histogram of each column."""
    asked = [buy for _, buy in _asked(schema)]
    return tuple(joint_event([_histogram(buy)], buy.noise) for buy in asked)


def with_ranges(schema: Schema, ranges: Mapping[str, Sequence[float]]) -> Schema:
    """The schema with these ranges for the columns whose ranges are bought."""
    columns = {
        name: column.with_bounds(*ranges[name]).model_dump(mode="json")
        for name, column in columns_bought(schema).items()
    }
    return schema.changed(columns=schema.model_dump(mode="json")["columns"] | columns)


def provisional(schema: Schema) -> Schema:
    """The schema with the public ranges within which others are looked for."""
    return with_ranges(schema, {name: buy.between for name, buy in _asked(schema)})


def buy_ranges(path: Path, schema: Schema, account: Account) -> dict[str, Range]:
    """The ranges, each charged to `account`. A row without a value is in no bin, one outside `between` neither."""
    found = {}
    for name, buy in _asked(schema):
        (counts,) = release(_values(path, schema, name)[:, np.newaxis], [_histogram(buy)], account, buy.noise)
        found[name] = _range(counts, buy)
    return found


def _range(counts: Array, buy: Bought) -> Range:
    """Between the quantiles of the bins that are clearly not empty; all of `between` if there are none."""
    clear = np.where(counts > _CLEAR * buy.noise, counts, 0.0)
    full = np.flatnonzero(clear)
    if not len(full):
        return buy.between
    below = np.cumsum(clear) / clear.sum()
    first, last = np.searchsorted(below, buy.share, "right"), np.searchsorted(below, 1 - buy.share, "left")
    edges = _histogram(buy).edges
    return edges[max(int(first), int(full[0]))], edges[min(int(last), int(full[-1])) + 1]


def _histogram(buy: Bought) -> Histogram:
    return Histogram(tuple(float(edge) for edge in np.linspace(*buy.between, buy.bins + 1)))


def _asked(schema: Schema) -> list[tuple[str, Bought]]:
    return [(name, column.buy) for name, column in columns_bought(schema).items() if column.buy is not None]


def _values(path: Path, schema: Schema, name: str) -> Array:
    marks, column = Marks(schema.missing, schema.csv.decimal, schema.csv.trim), schema.columns[name]
    assert isinstance(column, Number)
    return np.concatenate([amounts(block.column(0), column, marks) for block in blocks(path, schema, [name])])
