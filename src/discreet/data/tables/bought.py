"""Ranges of numbers and categories that are bought before the first step; the run's plan covers them.

Ranges: a noisy histogram of the column. Bins are public and a person is in one of them, so it is one Gaussian release
of sensitivity 1. The rest is post-processing: bins below `_CLEAR` deviations of the noise count as empty, and the range
lies between two quantiles of the others. For a column with no known bounds see `magnitudes`. Categories: see
`frequent`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.data.tables import frequent, magnitudes
from discreet.data.tables.amounts import amounts
from discreet.data.tables.categories import Category
from discreet.data.tables.columns import Bought, Number
from discreet.data.tables.files.reading import blocks
from discreet.data.tables.frequent import Counts
from discreet.data.tables.schema import Schema
from discreet.queries import Account, Histogram, joint_event, release

Found = tuple[float, float] | tuple[str, ...]
"""A range, or categories."""

_CLEAR = 4.0
"""With 64 bins, noise makes an empty bin look full in one of 500 histograms."""


def columns_bought(schema: Schema) -> dict[str, Number | Category]:
    """The columns whose ranges or categories are bought, in order."""
    return {
        name: column
        for name, column in schema.columns.items()
        if isinstance(column, Number | Category) and column.buy is not None
    }


def what_of(column: Number | Category) -> str:
    """The word for what is bought of a column: range or categories."""
    return "range" if isinstance(column, Number) else "categories"


def refuse_bought(schema: Schema, why: str, instead: str = "") -> None:
    """`InputError` for a schema with columns to be bought, in a place where nothing is: `why`, and what else helps
    `instead` of declaring."""
    for name, column in columns_bought(schema).items():
        raise InputError(
            f"schema: the {what_of(column)} of {name} {why}; declare what is publicly known in the place of "
            f"buy{instead}"
        )


def events_bought(schema: Schema, delta: float) -> dict[str, list[Event]]:
    """The events of buying, by column, in order: one histogram or two each. `delta`: that of the whole run."""
    return {name: _events(column, delta) for name, column in columns_bought(schema).items()}


def with_bought(schema: Schema, found: Mapping[str, Sequence[float] | Sequence[str]]) -> Schema:
    """The schema with the bought ranges and categories."""
    columns = {
        name: _with(column, found[name]).model_dump(mode="json") for name, column in columns_bought(schema).items()
    }
    return schema.changed(columns=schema.model_dump(mode="json")["columns"] | columns)


def provisional(schema: Schema) -> Schema:
    """The schema before buying: with the public bounds of the ranges to be bought, and without bought categories."""
    return with_bought(
        schema,
        {
            name: column.buy.widest if isinstance(column, Number) and column.buy is not None else ()
            for name, column in columns_bought(schema).items()
        },
    )


def counts_bought(path: Path, schema: Schema) -> Counts:
    """Counts of each category in the columns whose categories are bought. Private; read before any charge."""
    names = [name for name, column in columns_bought(schema).items() if isinstance(column, Category)]
    return frequent.counts_of(path, schema, names) if names else {}


def buy_columns(path: Path, schema: Schema, counts: Counts, account: Account) -> dict[str, Found]:
    """The ranges and categories, each charged to `account`. `counts` are those of `counts_bought`.

    A row without a value is in no bin and no category, one outside `between` in no bin.
    """
    found: dict[str, Found] = {}
    for name, column in columns_bought(schema).items():
        assert column.buy is not None
        if isinstance(column, Category):
            found[name] = frequent.buy(counts[name], column, account)
        else:
            rows = _values(path, schema, name)[:, np.newaxis]
            bins = [release(rows, [one], account, noise)[0] for one, noise in _histograms(column.buy)]
            found[name] = _range(bins, column.buy)
    return found


def _events(column: Number | Category, delta: float) -> list[Event]:
    assert column.buy is not None
    if isinstance(column, Category):
        return [frequent.event_of(column, delta)]
    return [joint_event([histogram], noise) for histogram, noise in _histograms(column.buy)]


def _with(column: Number | Category, found: Sequence[float] | Sequence[str]) -> Number | Category:
    if isinstance(column, Category):
        return column.with_categories([str(name) for name in found])
    low, high = found
    return column.with_bounds(float(low), float(high))


def _range(counts: Sequence[Array], buy: Bought) -> tuple[float, float]:
    """The range between the quantiles of the bins that are clearly not empty; all of `between` if there are none."""
    if buy.between is None:
        return magnitudes.range_of(counts[0], counts[1], buy.noise)
    clear = np.where(counts[0] > _CLEAR * buy.noise, counts[0], 0.0)
    full = np.flatnonzero(clear)
    if not len(full):
        return buy.between
    below = np.cumsum(clear) / clear.sum()
    first, last = np.searchsorted(below, buy.share, "right"), np.searchsorted(below, 1 - buy.share, "left")
    edges = _edges(buy.between, buy.bins)
    return edges[max(int(first), int(full[0]))], edges[min(int(last), int(full[-1])) + 1]


def _histograms(buy: Bought) -> list[tuple[Histogram, float]]:
    """The histograms for a range, each with the deviation of its noise."""
    if buy.between is not None:
        return [(_closed(_edges(buy.between, buy.bins)), buy.noise)]
    powers, eighths = magnitudes.noises(buy.noise)
    return [(_closed(magnitudes.POWERS), powers), (_closed(magnitudes.EIGHTHS), eighths)]


def _closed(edges: tuple[float, ...]) -> Histogram:
    """The histogram whose last bin has its upper edge too, as the range has its ends."""
    return Histogram((*edges[:-1], math.nextafter(edges[-1], math.inf)))


def _edges(between: tuple[float, float], bins: int) -> tuple[float, ...]:
    return tuple(float(edge) for edge in np.linspace(*between, bins + 1))


def _values(path: Path, schema: Schema, name: str) -> Array:
    column = schema.columns[name]
    assert isinstance(column, Number)
    parts = []
    for block in blocks(path, schema, [name]):
        found, faults = amounts(block.column(0), column, schema.marks)
        if faults:
            raise InputError(f"{path}: column {name!r}: {next(iter(faults.values()))}")
        parts.append(found)
    return np.concatenate(parts)
