"""A draft of a schema from the names and types of a table's columns. For a .csv file, types are guessed.

A guess is from the first rows, and one of them can decide it, so the draft says what to correct before it is published.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from discreet.core.disk import real
from discreet.core.errors import InputError
from discreet.data.tables.columns import FILL_IN
from discreet.data.tables.drafting.doubtful_marks import careful
from discreet.data.tables.drafting.draft_column import (
    NO_NAME,
    NOTHING,
    ROW_NUMBERS,
    Known,
    column_line,
    is_open_number,
    limits_of,
    listed_texts,
    names_somebody,
    quoted,
)
from discreet.data.tables.drafting.from_public import PublicColumns, public_columns
from discreet.data.tables.drafting.ranges_bought import with_ranges_bought
from discreet.data.tables.files.column_kinds import ABSENT, Kind, column_kind, whole
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.dialect import FOUND_OUT, found_format
from discreet.data.tables.files.foreign import FOREIGN
from discreet.data.tables.files.reading import PACKED, first_rows, is_text
from discreet.data.tables.files.reading_errors import said_plainly
from discreet.data.tables.images import classes_in
from discreet.data.tables.values import Marks

_CAUTION = re.compile(r"^ *# (CAREFUL: .*(?:\n *# (?!A draft for ).*)*)", re.MULTILINE)
"""A comment that begins so, up to its end, or up to the head of the draft."""

_NO_TABLES = (".pkl", ".pickle", ".json", ".npz", ".npy", ".feather", ".orc", ".h5", ".hdf5", ".rds", ".rdata", ".pdf")
"""Files of other kinds, which would be read as text."""

_HEAD = """\
# A draft for {path}. Fill in every {mark}; from public knowledge, not by looking at the table.
#
# All of it is published with the model. The names of the columns are treated as public. Guessed from the first rows are
# {guessed}. A single row can decide
# a guess: one <0.5 among numbers, one "dead" among yes and no. Correct what nobody may know.
# Not looked at: ranges, categories, and how many rows there are. A largest or rarest value can give somebody away,
# so ranges and categories that were read off the table would need a price, and have none. Some are proposed, by the
# name of a column or from public tables: check them.
#   range       what values can be (an age: 0 to 120). Values outside are clipped.{buy_range}
#   categories  the list that a form or a code book has. Others become "other".{buy_categories}
"""

_BUY_RANGE = """ Or buy it with a noisy histogram:
#               buy: {between: [0, 300]} in the place of low and high."""

_BUY_CATEGORIES = """ Or buy those that are frequent, by
#               counts with noise: buy: {noise: 10} in the place of categories."""


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


def draft(path: Path, csv: CsvFormat | None = None, find: Sequence[str] = FOUND_OUT, known: Known = NOTHING) -> str:
    """The draft as YAML with comments. `InputError` if the table cannot be read. Of a folder of images, its classes.

    `find`: the fields of `csv` that are found out from how the file is written.
    """
    if path.is_dir():
        return _of_folder(path)
    if path.name.lower().endswith((*_NO_TABLES, *(one + packed for one in FOREIGN for packed in PACKED if packed))):
        raise InputError(
            f"{path.name} is no table that can be read; give .csv, .parquet, .jsonl, .xlsx, .sav or .dta: a frame of "
            "pandas is written by frame.to_parquet"
        )
    csv, text = csv or CsvFormat(), is_text(path)
    if text:
        with said_plainly(path):
            csv = found_format(path, csv, find)
    rows = first_rows(path, csv)
    marks = Marks((), csv.decimal, csv.thousands)
    kinds = {name: column_kind(whole(rows, name), marks) for name in rows.column_names}
    _check_known(path, known, kinds)
    seen = [public_columns(one, kinds, known.target, newlines=csv.newlines) for one in known.public]
    columns = {name: column_line(name, kind, seen, known) for name, kind in kinds.items()}
    if text and csv.header and NO_NAME in columns and NO_NAME not in (known.unit, known.target):
        columns[NO_NAME] = ROW_NUMBERS
    price = ""
    if known.buy_ranges:
        unknown = [name for name in columns if is_open_number(columns[name]) and name != known.target]
        limits = {name: limits_of(kind) for name, kind in kinds.items()}
        columns, price = with_ranges_bought(columns, unknown, known.population, known.unit, limits)
    above = careful(kinds, csv, found_out="thousands" in find)
    return price + "".join(_lines(path, csv, kinds, known, columns, seen, above))


def _check_known(path: Path, known: Known, kinds: Mapping[str, Kind]) -> None:
    """Refuse a target, or a column of people, that the table does not have."""
    targets = [] if known.target is None or known.target in kinds else known.target.split(",")
    people = [] if known.unit in (None, "row") else [str(known.unit)]
    for option, names in (("--target", targets), ("--unit", people)):
        for name in names:
            if name.strip() not in kinds:
                few = ", ".join([*list(kinds)[:10], *(["..."] if len(kinds) > 10 else [])])
                raise InputError(f"{option} {name.strip()}: {path.name} has no such column; it has {few}")


def left_open(text: str) -> list[str]:
    """The gaps that a draft leaves to fill in, by name."""
    lines = [line for line in text.splitlines() if not line.startswith("#") and FILL_IN in line.partition("  #")[0]]
    return [line.strip().partition(": ")[0] for line in lines]


def cautions(text: str) -> list[str]:
    """The warnings that a draft marks with CAREFUL, a line each."""
    return [re.sub(r"\n *# ", " ", found) for found in _CAUTION.findall(text)]


def _lines(
    path: Path,
    csv: CsvFormat,
    kinds: dict[str, Kind],
    known: Known,
    columns: dict[str, str],
    seen: Sequence[PublicColumns],
    above: Mapping[str, str],
) -> Iterator[str]:
    """Pieces of the draft; `above` are comments that stand above columns."""
    text = is_text(path)
    guessed = "types, limits (censored), formats of days" + (" and how the file is written" if text else "")
    people = known.unit not in (None, "row")
    buy = ("", "") if people else (_BUY_RANGE, _BUY_CATEGORIES)  # what is bought protects single rows
    yield _HEAD.format(path=path.name, mark=FILL_IN, guessed=guessed, buy_range=buy[0], buy_categories=buy[1])
    numbers = [name for name in kinds if _is_number(name)]
    if numbers and csv.header and text:
        yield (
            f"# CAREFUL: the first line was taken for names, and {numbers[0]!r} is a number. If that line is data,\n"
            "# this draft shows somebody's row: throw it away, and draft again with --no-header.\n"
        )
    given = csv.model_dump(mode="json", exclude_defaults=True)
    if given:
        shown = yaml.safe_dump(given, default_flow_style=True, allow_unicode=True, width=10**6).strip()
        yield f"csv: {shown}\n"
    unit = "  # row, if every person has one row at most; else the column that says whose a row is"
    yield f"unit: {FILL_IN + unit if known.unit is None else quoted(known.unit)}\n"
    if people:
        yield "# rows_per_unit: 4  # how many rows of each a step uses at most, drawn at random; 1 unless declared\n"
    size = f"{FILL_IN}  # how many people (rows), as the public may know it: a round number will do"
    yield f"population: {size if known.population is None else f'{known.population:.15g}'}\n"
    target = f"{FILL_IN}  # the column to predict"
    yield f"target: {target if known.target is None else quoted(known.target)}\n"
    names = [name for name in kinds if names_somebody(name)]
    if names and not people:
        yield f"# row_id: {quoted(names[0])}  # names each row; --holdout 20% needs it, to measure on private rows\n"
    codes = {f"{code:.15g}": (public.name, names) for public in seen for code, names in public.codes.items()}
    yield f"missing: {listed_texts((*ABSENT, *codes))}\n"
    yield "# The usual texts for a missing value, whether they occur or not; add what the form has, such as unknown.\n"
    for code, (table, names) in codes.items():
        some = f"{names[0]!r}" if len(names) == 1 else f"{names[0]!r} and {len(names) - 1} more"
        yield f"# {code} is far from all other values of {some} in {table}: taken for a code; check it\n"
    yield "columns:\n"
    for name, column in columns.items():
        yield above.get(name, "")
        if name == known.target and not known.balance:
            yield from _rare_classes(seen)
        yield f"  {quoted(name)}: {column}\n"


def _rare_classes(seen: Sequence[PublicColumns]) -> Iterator[str]:
    """A comment on a class that is less than half as frequent as if all were equally frequent."""
    for public in seen:
        shares = public.shares
        rare = min(shares, key=lambda name: shares[name], default="")
        if shares and shares[rare] < 0.5 / len(shares):
            yield (
                f"  # {shares[rare]:.2g} of the rows of {public.name} are {rare!r}, which a model that is right most "
                "often may never say.\n  # Draft with --balance to weigh all classes alike.\n"
            )


def _of_folder(path: Path) -> str:
    names = yaml.safe_dump(list(classes_in(path)), default_flow_style=True, width=10**6).strip()
    return _FOLDER.format(path=path.name or real(path).name, mark=FILL_IN, names=names)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
