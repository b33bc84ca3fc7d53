"""A file of the same table in another format: public rows, or new ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discreet.core.errors import InputError
from discreet.data.tables.categories import Category
from discreet.data.tables.columns import Number
from discreet.data.tables.files.dialect import found_format
from discreet.data.tables.files.reading import column_names, is_text
from discreet.data.tables.schema import Schema


def as_written(path: Path, schema: Schema, wanted: Sequence[str]) -> Schema:
    """The schema with the format of this file, where the schema's does not fit it.

    For files whose values may be used. Delimiter and encoding are found out if the schema's format does not find all
    `wanted` columns, and taken unless they find fewer; decimal and thousands mark always, from columns that the schema
    declares as numbers: codes such as 1,5 do not tell how these are written. Anything else is the schema's.
    """
    if not is_text(path) or not path.is_file():
        return schema
    lacks = _lacks(path, schema, wanted)
    declared = list(schema.columns.values())

    def numeric(place: int, name: str) -> bool:
        by_place = declared[place] if place < len(declared) else None
        column = schema.columns.get(name) if schema.csv.header else by_place
        return isinstance(column, Number) or (isinstance(column, Category) and column.numeric)

    try:
        found = schema.csv if not lacks else found_format(path, schema.csv, ("encoding", "delimiter"))
        found = found_format(path, found, ("decimal", "thousands"), numeric)
        other = schema.changed(csv=found.model_dump(mode="json"))
    except (InputError, OSError):
        return schema  # which says what is wrong with it
    return other if not lacks or _lacks(path, other, wanted) <= lacks else schema


def _lacks(path: Path, schema: Schema, wanted: Sequence[str]) -> int:
    """How many of the columns the format does not find; one more than there are if it finds no names."""
    if not schema.csv.header:
        return 0
    try:
        return len({*wanted} - {*column_names(path, schema.csv)})
    except InputError:
        return len(wanted) + 1
