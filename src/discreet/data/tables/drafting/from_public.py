"""Ranges and categories from the rows of a public table, whose values may be used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.data.tables.amounts import amounts
from discreet.data.tables.categories import formula_like
from discreet.data.tables.columns import Date, Number
from discreet.data.tables.drafting.missing_codes import missing_codes
from discreet.data.tables.files.column_kinds import ABSENT, WIDEST, WIDEST_DAYS, Kind, column_kind, whole
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.dialect import FOUND_OUT, found_format
from discreet.data.tables.files.reading import blocks, first_rows, is_text
from discreet.data.tables.files.reading_errors import said_plainly
from discreet.data.tables.schema import Schema
from discreet.data.tables.values import BadValue, Marks, occurring
from discreet.plan.pydantic_base import validate

_MOST = 64
"""Categories that are listed; a column with more is left open."""


_SENTENCE = 5
"""Words of a text that is no category, if nearly every row has another one."""


@dataclass(frozen=True, slots=True)
class PublicColumns:
    """Values of a public table by column: `amounts` of numbers and days without missing ones, and `texts` that occur.

    `unlike`: text columns in which at least half of the rows have a unique value, and more than are listed. `prose`:
    those in which it is a sentence, however few the rows. `codes`: numbers that seem to stand for a missing value, with
    their columns. `shares`: of each text in the column to predict.
    """

    name: str
    amounts: dict[str, Array] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    unlike: tuple[str, ...] = ()
    prose: tuple[str, ...] = ()
    codes: dict[float, list[str]] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)

    def range_of(self, column: str) -> tuple[float, float] | None:
        """Least and largest value, each rounded outwards by less than a fifth of their distance; None where there are
        none."""
        found = self.amounts.get(column)
        if found is None or not len(found) or found.min() == found.max():
            return None
        low, high = float(found.min()), float(found.max())
        step = 10.0 ** math.floor(math.log10((high - low) / 5))
        return float(f"{math.floor(low / step) * step:.12g}"), float(f"{math.ceil(high / step) * step:.12g}")

    def spread_of(self, column: str) -> tuple[float, float] | None:
        """Mean and standard deviation, to two digits; None where all values are equal."""
        found = self.amounts.get(column)
        if found is None or not len(found) or not found.std():
            return None
        return float(f"{found.mean():.2g}"), float(f"{found.std():.2g}")


def public_columns(
    path: Path, kinds: dict[str, Kind], target: str | None = None, *, newlines: bool = False
) -> PublicColumns:
    """Values of the public table at `path`, for columns of these `kinds` in both tables; its format is found out.

    `newlines`: its quoted values may have line breaks.
    """
    csv = CsvFormat(newlines=newlines)
    if is_text(path):
        with said_plainly(path):
            csv = found_format(path, csv, FOUND_OUT)
    rows, marks = first_rows(path, csv), Marks(ABSENT, csv.decimal, csv.thousands)
    own = {name: column_kind(whole(rows, name), marks) for name in rows.column_names if name in kinds}
    numbers = [name for name, kind in own.items() if {kind.name, kinds[name].name} <= {"whole", "number"}]
    days = [name for name, kind in own.items() if kind.name == kinds[name].name == "date" and not kind.formats]
    listed = [name for name in own if kinds[name].name == "text" or (name == target and name not in numbers + days)]
    found = _read(path, csv, own, [*numbers, *days], listed)
    seen, texts = {text for one in found.texts.values() for text in one}, found.texts
    codes = missing_codes({name: found.amounts[name] for name in numbers}, seen)
    for name in numbers:
        found.amounts[name] = found.amounts[name][~np.isin(found.amounts[name], list(codes))]
    prose = tuple(name for name, values in texts.items() if len(values) > found.rows / 2 and _are_sentences(values))
    unlike = tuple(name for name, values in texts.items() if len(values) > max(_MOST, found.rows / 2))
    kept = {name: found.shown(name) for name, values in texts.items() if len(values) <= _MOST and name not in prose}
    kept = {name: values for name, values in kept.items() if values}
    shares = {} if target not in kept else {text: texts[target][text] / texts[target].total() for text in kept[target]}
    return PublicColumns(path.name, found.amounts, kept, unlike, prose, codes, shares)


@dataclass(slots=True)
class _Read:
    """What the rows of a table hold by column: `amounts` of numbers and days, and how often each of the `texts` occurs;
    `declared`: texts in the order in which the file lists them, if it does."""

    rows: int
    amounts: dict[str, Array]
    texts: dict[str, Counter[str]]
    declared: dict[str, list[str]]

    def shown(self, name: str) -> list[str]:
        """The texts of a column that a draft may show: those declared in their order, then the others by alphabet."""
        places = {text: place for place, text in enumerate(self.declared.get(name, ()))}
        shown = (text for text in self.texts[name] if text and text.isprintable() and not formula_like(text))
        return sorted(shown, key=lambda text: (places.get(text, len(places)), text))


def _read(path: Path, csv: CsvFormat, own: Mapping[str, Kind], measured: list[str], listed: list[str]) -> _Read:
    """All rows, of the `measured` and the `listed` columns; `own` has the kind of every column."""
    facts = {"columns": {name: {"type": "ignore"} for name in own}, "csv": csv.model_dump(), "others": "ignore"}
    schema = validate(Schema, facts | {"missing": ABSENT}, "schema")
    parts: dict[str, list[Array]] = {name: [np.empty(0)] for name in measured}
    texts, declared, rows = {name: Counter[str]() for name in listed}, dict[str, list[str]](), 0
    for block in blocks(path, schema, [*measured, *listed]) if own else ():
        rows += block.num_rows
        for name in measured:
            parts[name].append(_present(block.column(name), own[name], schema))
        for name in listed:
            try:
                texts[name].update(dict(occurring(block.column(name), schema.marks)))
                declared.setdefault(name, _own_order(block.column(name), schema.marks))
            except BadValue as bad:
                raise InputError(f"{path}: column {name!r}: {bad}") from None
    return _Read(rows, {name: np.concatenate(one) for name, one in parts.items()}, texts, declared)


def _present(values: pa.Array, kind: Kind, schema: Schema) -> Array:
    column: Number | Date = Number.model_validate(WIDEST | {"censored": "bound"})
    if kind.name == "date":
        column = Date.model_validate(WIDEST_DAYS | {"format": kind.format})
    found, _ = amounts(values, column, schema.marks)
    return found[~np.isnan(found)]


def _own_order(values: pa.Array, marks: Marks) -> list[str]:
    """The categories in the order in which the file declares them; [] where it declares none, as a .csv file."""
    if not pa.types.is_dictionary(values.type):
        return []
    return [text for text, _ in occurring(values.dictionary, marks)]


def _are_sentences(values: Collection[str]) -> bool:
    """Whether the texts read like sentences: at least half of them have `_SENTENCE` words or more."""
    return 2 * sum(len(text.split()) >= _SENTENCE for text in values) >= len(values) > 2
