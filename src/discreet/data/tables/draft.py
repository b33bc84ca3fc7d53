"""A draft of a schema: from the names and types of a table's columns, which for a .csv file are guessed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import yaml

from discreet.data.tables.columns import FILL_IN
from discreet.data.tables.files.column_kinds import Kind, kind_of, marks_in
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.dialect import found_format
from discreet.data.tables.files.reading import first_rows, is_text, said_plainly
from discreet.data.tables.images import classes_in
from discreet.data.tables.values import Marks

_NAMES_SOMEBODY = ("id", "name", "email", "e-mail", "phone", "address", "ssn", "mrn", "uuid", "key")

_MISSING = ("", "NA", "nan")

FOUND_OUT = ("encoding", "delimiter", "decimal", "thousands")
"""What of the way a file is written is found out from its beginning."""

_HEAD = """\
# A draft for {path}. Fill in every {mark}; from public knowledge, not by looking at the table.
#
# Treated as public, because a schema is published with the model: the names of the columns and their types{how}.
# Not looked at: ranges, categories, and how many rows there are. A largest or rarest value can give somebody away,
# so ranges and categories that were read off the table would need a price, and have none.
#   range       what values can be (an age: 0 to 120). Values outside are clipped. Or buy it with a noisy histogram:
#               buy: {{between: [0, 300]}} in the place of low and high.
#   categories  the list that a form or a code book has. Others become "other". Or buy those that are frequent, by
#               counts with noise: buy: {{noise: 10}} in the place of categories.
"""


_FOLDER = """\
# A draft for {path}. Fill in every {mark}; from public knowledge, not by looking at the images.
#
# Treated as public, because a schema is published with the model: the names of the sub-folders.
# List every class that there may be, not those that occur.
# Not looked at: images, and how many there are.
unit: row  # one image is protected; if a person may have several, write an index file with a column that says whose
population: {mark}  # how many images, as the public may know it: a round number will do
target: class
row_id: path
columns:
  path: {{type: image, size: 28x28, mode: grey}}  # mode: grey or rgb; fit: stretch, crop, pad
  class: {{type: category, categories: {names}}}
"""


def draft(path: Path, csv: CsvFormat | None = None, find: Sequence[str] = FOUND_OUT) -> str:
    """The draft as YAML with comments. `InputError` if the table cannot be read. Of a folder of images, its classes.

    `find`: the fields of `csv` that are found out from how the file is written.
    """
    if path.is_dir():
        return _of_folder(path)
    csv, text = csv or CsvFormat(), is_text(path)
    if text:
        with said_plainly(path):
            csv = found_format(path, csv, find)
    rows = first_rows(path, csv)
    marks = Marks((), csv.decimal, csv.thousands)
    kinds = {name: kind_of(_whole(rows, name), _MISSING, marks) for name in rows.column_names}
    how = ",\n# which were guessed from the first rows, and the way the file is written" if text else ""
    lines = [_HEAD.format(path=path.name, mark=FILL_IN, how=how)]
    numbers = [name for name in rows.column_names if _is_number(name)]
    if numbers and csv.header and text:
        lines.append(
            f"# CAREFUL: the first line was taken for names, and {numbers[0]!r} is a number. If that line is data,\n"
            "# this draft shows somebody's row: throw it away, and draft again with --no-header.\n"
        )
    given = csv.model_dump(mode="json", exclude_defaults=True)
    if given and text:
        shown = yaml.safe_dump(given, default_flow_style=True, allow_unicode=True, width=10**6).strip()
        lines.append(f"csv: {shown}\n")
    lines.append(
        f"unit: {FILL_IN}  # row, if every person has one row at most; else the column that says whose a row is\n"
    )
    lines.append(
        f"population: {FILL_IN}  # how many people (rows), as the public may know it: a round number will do\n"
    )
    lines.append(f"target: {FILL_IN}  # the column to predict\n")
    measured = [name for name, kind in kinds.items() if kind.name in ("whole", "number", "date")]
    absent = sorted(set[str]().union(*(marks_in(_whole(rows, name)) for name in measured)) - {*_MISSING, "."})
    lines.append(f"missing: {json.dumps([*_MISSING, *absent])}  # texts that stand for a missing value\n")
    lines.append("columns:\n")
    lines.extend(f"  {_quoted(name)}: {_column(name, kind)}\n" for name, kind in kinds.items())
    return "".join(lines)


def _whole(rows: pa.Table, name: str) -> pa.Array:
    found = rows.column(name).combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def _of_folder(path: Path) -> str:
    names = yaml.safe_dump(list(classes_in(path)), default_flow_style=True, width=10**6).strip()
    return _FOLDER.format(path=path.name or path.resolve().name, mark=FILL_IN, names=names)


def _column(name: str, kind: Kind) -> str:
    words = name.lower().replace("-", "_").replace(" ", "_").split("_")
    if any(word in _NAMES_SOMEBODY for word in words):
        return "{type: ignore}  # by its name, this tells who somebody is; if it says whose a row is, name it in unit"
    if kind.name == "boolean":
        return "{type: boolean}"
    if kind.name == "date":
        return _date(kind)
    if kind.name in ("whole", "number"):
        limits = ", censored: bound" if kind.limits else ""
        codes = "  # if its numbers are codes: {type: category, categories: FILL_IN}" if kind.name == "whole" else ""
        return f"{{type: number, low: {FILL_IN}, high: {FILL_IN}{limits}}}{codes}"
    if kind.name == "text":
        return f"{{type: category, categories: {FILL_IN}}}  # of free text {{type: text}}, or {{type: ignore}}"
    return "{type: ignore}  # values of this type cannot be used"


def _date(kind: Kind) -> str:
    written = "" if kind.format is None else f", format: {json.dumps(kind.format)}"
    if not kind.formats:
        return f"{{type: date, low: {FILL_IN}, high: {FILL_IN}{written}}}"
    choices = " or ".join(json.dumps(one) for one in kind.formats)
    return (
        f"{{type: date, low: {FILL_IN}, high: {FILL_IN}, format: {FILL_IN}}}  # {choices}: the first rows do not tell"
    )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _quoted(name: str) -> str:
    """A column's name as a key of YAML."""
    return yaml.safe_dump(name, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
