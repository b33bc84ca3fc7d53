"""Ranges and categories from the rows of a public table, whose values may be used."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
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
    names = list(own)
    numbers = [name for name in names if {own[name].name, kinds[name].name} <= {"whole", "number"}]
    days = [name for name in names if own[name].name == kinds[name].name == "date" and not own[name].formats]
    listed = [name for name in names if kinds[name].name == "text" or (name == target and name not in numbers + days)]
    facts = {"columns": {name: {"type": "ignore"} for name in names}, "csv": csv.model_dump(), "others": "ignore"}
    schema = validate(Schema, facts | {"missing": ABSENT}, "schema")
    found: dict[str, list[Array]] = {name: [np.empty(0)] for name in (*numbers, *days)}
    texts = {name: Counter[str]() for name in listed}
    ordered: dict[str, list[str]] = {}
    count = 0
    for block in blocks(path, schema, [*found, *listed]) if names else ():
        count += block.num_rows
        for name in found:
            found[name].append(_present(block.column(name), own[name], schema))
        for name in listed:
            try:
                texts[name].update(dict(occurring(block.column(name), schema.marks)))
                ordered.setdefault(name, _own_order(block.column(name), schema.marks))
            except BadValue as bad:
                raise InputError(f"{path}: column {name!r}: {bad}") from None
    prose = tuple(name for name, values in texts.items() if len(values) > count / 2 and _are_sentences(values))
    unlike = tuple(name for name, values in texts.items() if len(values) > max(_MOST, count / 2))
    few = {name: values for name, values in texts.items() if 0 < len(values) <= _MOST and name not in prose}
    shown = {name: _in_order(_shown(values), ordered[name]) for name, values in few.items()}
    kept = {name: values for name, values in shown.items() if values}
    measured = {name: np.concatenate(parts) for name, parts in found.items()}
    codes = missing_codes({name: measured[name] for name in numbers}, {text for one in texts.values() for text in one})
    for name in numbers:
        measured[name] = measured[name][~np.isin(measured[name], list(codes))]
    shares = {} if target not in kept else {text: texts[target][text] / texts[target].total() for text in kept[target]}
    return PublicColumns(path.name, measured, kept, unlike, prose, codes, shares)


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


def _in_order(texts: Iterable[str], first: Sequence[str]) -> list[str]:
    """The texts: those of `first` in its order, then the others in alphabetical order."""
    places = {text: place for place, text in enumerate(first)}
    return sorted(texts, key=lambda text: (places.get(text, len(places)), text))


def _are_sentences(values: Collection[str]) -> bool:
    """Whether the texts read like sentences: at least half of them have `_SENTENCE` words or more."""
    return 2 * sum(len(text.split()) >= _SENTENCE for text in values) >= len(values) > 2


def _shown(values: Iterable[str]) -> Iterator[str]:
    return (text for text in values if text and text.isprintable() and not formula_like(text))
