"""Bought categories: the frequent values of a column, by a sparse histogram before the first step.

The possible values need not be declared. Each value that occurs gets a noisy count, and is kept if the count is above a
threshold. A value that only one person has passes it with a probability of at most a thousandth of delta
(`accounting.theories.sparse`). The rest is post-processing: the most frequent are kept, and published by name alone, in
alphabetical order.

The value alone decides whether it can be a category, so one row changes one count by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from discreet.core.errors import InputError
from discreet.core.events import SparseHistogram
from discreet.data.tables.categories import Category, formula_like
from discreet.data.tables.files.reading import blocks
from discreet.data.tables.schema import Schema
from discreet.data.tables.values import BadValue, Marks, category_of, occurring
from discreet.queries import Account
from discreet.queries.sparse_histogram import frequent, sparse_histogram

Counts = Mapping[str, Mapping[str, int]]
"""By column, how many rows have each value."""

_OF_DELTA = 1e-3
"""The part of delta, for each column, that covers values which only one person has."""

_LONGEST = 80
"""The most characters of a category; longer texts are not counted."""

_MOST = 1 << 18
"""The most different values of a column; more would fill the memory, and are no categories."""


def event_of(column: Category, delta: float) -> SparseHistogram:
    """The event of buying the categories of a column, in a run whose whole delta is `delta`."""
    assert column.buy is not None
    return sparse_histogram(column.buy.noise, _OF_DELTA * delta)


def buy(counts: Mapping[str, int], column: Category, account: Account) -> tuple[str, ...]:
    """The categories, charged to `account`, sorted by name; () if none is frequent."""
    assert column.buy is not None
    noisy = frequent(counts, event_of(column, account.delta), account)
    first = sorted(noisy, key=lambda name: (-noisy[name], name))[: column.buy.most]
    return tuple(sorted(first))


def counts_of(path: Path, schema: Schema, names: Sequence[str]) -> Counts:
    """Counts of the values of these columns in the table; other spellings count as the category that they stand for.

    Values that are missing, empty, unprintable, longer than 80 characters, or like a formula of a spreadsheet are not
    counted. `InputError` for a column with more different values than memory is spent on.
    """
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    start = 0
    for block in blocks(path, schema, names):
        for name, total in found.items():
            column = schema.columns[name]
            assert isinstance(column, Category)
            try:
                _add(total, block.column(name), column, schema.marks)
            except BadValue as bad:
                raise InputError(f"{path}: row {start + bad.row + 1}, column {name!r}: {bad}") from None
            if len(total) > _MOST:
                raise InputError(
                    f"{path}: column {name!r} has more than {_MOST} different values, too many for categories; say "
                    "type: ignore, or list the categories that matter"
                )
        start += block.num_rows
    return found


def _add(total: dict[str, int], values: pa.Array, column: Category, marks: Marks) -> None:
    """Add the counts of a block's values to the total."""
    named = category_of(column, marks)
    for text, count in occurring(values, marks, numeric=column.numeric):
        value = named.get(text, text)
        if 0 < len(value) <= _LONGEST and value.isprintable() and not formula_like(value):
            total[value] = total.get(value, 0) + count
