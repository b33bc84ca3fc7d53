"""A draft of a schema: from the names and types of a table's columns, which for a .csv file are guessed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import yaml

from discreet.data.tables.columns import FILL_IN
from discreet.data.tables.images import classes_in
from discreet.data.tables.reading import header, is_parquet
from discreet.data.tables.schema import CsvFormat

_NAMES_SOMEBODY = ("id", "name", "email", "e-mail", "phone", "address", "ssn", "mrn", "uuid", "key")

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


def draft(path: Path, csv: CsvFormat | None = None) -> str:
    """The draft as YAML with comments. `InputError` if the table cannot be read. Of a folder of images, its classes."""
    if path.is_dir():
        return _of_folder(path)
    csv = csv or CsvFormat()
    found = header(path, csv)
    how = "" if is_parquet(path) else ",\n# which were guessed from the first rows"
    lines = [_HEAD.format(path=path.name, mark=FILL_IN, how=how)]
    numbers = [name for name in found.names if _is_number(name)]
    if numbers and csv.header and not is_parquet(path):
        lines.append(
            f"# CAREFUL: the first line was taken for names, and {numbers[0]!r} is a number. If that line is data,\n"
            "# this draft shows somebody's row: throw it away, and draft again with --no-header.\n"
        )
    given = csv.model_dump(mode="json", exclude_defaults=True)
    if given and not is_parquet(path):
        lines.append(f"csv: {yaml.safe_dump(given, default_flow_style=True).strip()}\n")
    lines.append(
        f"unit: {FILL_IN}  # row, if every person has one row at most; else the column that says whose a row is\n"
    )
    lines.append(
        f"population: {FILL_IN}  # how many people (rows), as the public may know it: a round number will do\n"
    )
    lines.append(f"target: {FILL_IN}  # the column to predict\n")
    lines.append('missing: ["", "NA", "nan"]  # texts that stand for a missing value\n')
    lines.append("columns:\n")
    lines.extend(f"  {_quoted(one.name)}: {_column(one.name, one.type)}\n" for one in found)
    return "".join(lines)


def _of_folder(path: Path) -> str:
    names = yaml.safe_dump(list(classes_in(path)), default_flow_style=True, width=10**6).strip()
    return _FOLDER.format(path=path.name or path.resolve().name, mark=FILL_IN, names=names)


def _column(name: str, kind: pa.DataType) -> str:
    words = name.lower().replace("-", "_").replace(" ", "_").split("_")
    if any(word in _NAMES_SOMEBODY for word in words):
        return "{type: ignore}  # by its name, this tells who somebody is; if it says whose a row is, name it in unit"
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_boolean(kind):
        return "{type: boolean}"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return f"{{type: date, low: {FILL_IN}, high: {FILL_IN}}}"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        codes = (
            "  # if its numbers are codes: {type: category, categories: FILL_IN}" if pa.types.is_integer(kind) else ""
        )
        return f"{{type: number, low: {FILL_IN}, high: {FILL_IN}}}{codes}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return f"{{type: category, categories: {FILL_IN}}}  # of free text {{type: text}}, or {{type: ignore}}"
    return f"{{type: ignore}}  # {kind} cannot be used"


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _quoted(name: str) -> str:
    """A column's name as a key of YAML."""
    return yaml.safe_dump(name, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
