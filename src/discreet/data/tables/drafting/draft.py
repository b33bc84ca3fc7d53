"""A draft of a schema from the names and types of a table's columns. For a .csv file, types are guessed."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from discreet.core.disk import real
from discreet.data.tables.categories import TRUE, words_of
from discreet.data.tables.columns import FILL_IN
from discreet.data.tables.drafting.from_public import PublicColumns, public_columns
from discreet.data.tables.drafting.plausible import plausible
from discreet.data.tables.drafting.ranges_bought import with_ranges_bought
from discreet.data.tables.files.column_kinds import Kind, kind_of, marks_in, whole
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.dialect import FOUND_OUT, found_format
from discreet.data.tables.files.reading import first_rows, is_text, said_plainly
from discreet.data.tables.images import classes_in
from discreet.data.tables.values import Marks

_NAMES_SOMEBODY = (
    *(
        "id",
        "name",
        "surname",
        "email",
        "e_mail",
        "mail",
        "phone",
        "address",
        "ssn",
        "mrn",
        "uuid",
        "key",
        "identifier",
    ),
    *("vorname", "nachname", "adresse", "telefon", "nummer", "nr", "fallnummer", "patientennummer", "kennung"),
)

_MISSING = ("", "NA", "nan")
_EPOCH = datetime.date(1970, 1, 1)

_HEAD = """\
# A draft for {path}. Fill in every {mark}; from public knowledge, not by looking at the table.
#
# Treated as public, because a schema is published with the model: the names of the columns and their types{how}.
# Not looked at: ranges, categories, and how many rows there are. A largest or rarest value can give somebody away,
# so ranges and categories that were read off the table would need a price, and have none. Some are proposed, by the
# name of a column or from public tables: check them.
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


@dataclass(frozen=True, slots=True)
class Known:
    """What the user says of a table. `public`: tables declared public, whose values may be used. `buy_ranges`: buy the
    unknown ranges of numbers. `balance`: weigh all classes alike, by their shares."""

    target: str | None = None
    unit: str | None = None
    population: float | None = None
    public: tuple[Path, ...] = ()
    buy_ranges: bool = False
    balance: bool = False


def draft(path: Path, csv: CsvFormat | None = None, find: Sequence[str] = FOUND_OUT, known: Known = Known()) -> str:
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
    kinds = {name: kind_of(whole(rows, name), _MISSING, marks) for name in rows.column_names}
    measured = [name for name, kind in kinds.items() if kind.name in ("whole", "number", "date")]
    absent = sorted(set[str]().union(*(marks_in(whole(rows, name)) for name in measured)) - {*_MISSING, "."})
    missing = (*_MISSING, *absent)
    seen = [public_columns(one, kinds, missing, known.target) for one in known.public]
    columns = {name: _column(name, kind, seen, known) for name, kind in kinds.items()}
    price = ""
    if known.buy_ranges:
        unknown = [name for name in columns if _is_open_number(columns[name]) and name != known.target]
        limits = {name: _limits(kind) for name, kind in kinds.items()}
        columns, price = with_ranges_bought(columns, unknown, known.population, known.unit, limits)
    return price + "".join(_lines(path, csv, kinds, missing, known, columns, seen))


def left_open(text: str) -> list[str]:
    """What a draft leaves to fill in, by its name."""
    lines = [line for line in text.splitlines() if not line.startswith("#") and FILL_IN in line.partition("  #")[0]]
    return [line.strip().partition(": ")[0] for line in lines]


def _lines(
    path: Path,
    csv: CsvFormat,
    kinds: dict[str, Kind],
    missing: Sequence[str],
    known: Known,
    columns: dict[str, str],
    seen: Sequence[PublicColumns],
) -> Iterator[str]:
    text = is_text(path)
    how = ",\n# which were guessed from the first rows, and the way the file is written" if text else ""
    yield _HEAD.format(path=path.name, mark=FILL_IN, how=how)
    numbers = [name for name in kinds if _is_number(name)]
    if numbers and csv.header and text:
        yield (
            f"# CAREFUL: the first line was taken for names, and {numbers[0]!r} is a number. If that line is data,\n"
            "# this draft shows somebody's row: throw it away, and draft again with --no-header.\n"
        )
    given = csv.model_dump(mode="json", exclude_defaults=True)
    if given and text:
        shown = yaml.safe_dump(given, default_flow_style=True, allow_unicode=True, width=10**6).strip()
        yield f"csv: {shown}\n"
    unit = "  # row, if every person has one row at most; else the column that says whose a row is"
    yield f"unit: {FILL_IN + unit if known.unit is None else _quoted(known.unit)}\n"
    size = f"{FILL_IN}  # how many people (rows), as the public may know it: a round number will do"
    yield f"population: {size if known.population is None else f'{known.population:.15g}'}\n"
    target = f"{FILL_IN}  # the column to predict"
    yield f"target: {target if known.target is None else _quoted(known.target)}\n"
    names = [name for name in kinds if _names_somebody(name)]
    if names and known.unit in (None, "row"):
        yield f"# row_id: {_quoted(names[0])}  # names each row; --holdout 20% needs it, to measure on private rows\n"
    codes = {f"{code:.15g}": (public.name, names) for public in seen for code, names in public.codes.items()}
    yield f"missing: {_listed((*missing, *codes))}  # texts that stand for a missing value\n"
    for code, (table, names) in codes.items():
        some = f"{names[0]!r}" if len(names) == 1 else f"{names[0]!r} and {len(names) - 1} more"
        yield f"# {code} is far from all other values of {some} in {table}: taken for a code; check it\n"
    yield "columns:\n"
    for name, column in columns.items():
        if name == known.target and not known.balance:
            yield from _rare_classes(seen)
        yield f"  {_quoted(name)}: {column}\n"


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


def _column(name: str, kind: Kind, seen: Sequence[PublicColumns], known: Known) -> str:
    """The line of a column: its type, its range or categories if they may be known, and where they come from."""
    if _names_somebody(name) and name != known.target:
        return "{type: ignore}  # by its name, this tells who somebody is; if it says whose a row is, name it in unit"
    if kind.name == "boolean":
        return _boolean(name, kind, seen, known)
    if kind.name == "date":
        return _date(name, kind, seen)
    if kind.name in ("whole", "number"):
        return _number(name, kind, seen, predicted=name == known.target)
    if kind.name == "text":
        for public in seen:
            if name in public.texts:
                listed = _listed(public.texts[name])
                shares = _shares(name, kind, seen, known)
                return f"{{type: category, categories: {listed}{shares}}}  # those of {public.name}"
            if name in public.unlike:
                return f"{{type: ignore}}  # in {public.name} nearly every row has another value"
        shares = _shares(name, kind, seen, known)
        return f"{{type: category, categories: {FILL_IN}{shares}}}  # of free text {{type: text}}, or {{type: ignore}}"
    return "{type: ignore}  # values of this type cannot be used"


def _boolean(name: str, kind: Kind, seen: Sequence[PublicColumns], known: Known) -> str:
    """Two words for what is predicted, if a public table has them: those of the private table are not looked at."""
    shares = _shares(name, kind, seen, known)
    for public in seen if name == known.target else ():
        words = words_of(public.texts.get(name, ()))
        if words is not None:
            return f"{{type: boolean, words: {_listed(words)}{shares}}}  # those of {public.name}"
    hint = '  # predicted as false and true; in your words with words: ["no", "yes"]' if name == known.target else ""
    return f"{{type: boolean{shares}}}{hint}"


def _shares(name: str, kind: Kind, seen: Sequence[PublicColumns], known: Known) -> str:
    """The shares of the classes, if all classes are to weigh alike."""
    if name != known.target or not known.balance:
        return ""
    for public in seen:
        if public.shares:
            shares = dict(public.shares)
            if kind.name == "boolean":
                true = sum(share for text, share in shares.items() if text.lower() in TRUE)
                names = words_of(list(shares)) or ("false", "true")
                shares = {names[0]: 1 - true, names[1]: true}
            if min(shares.values()) == 0:  # a public table with one class does not say how rare the other is
                break
            listed = ", ".join(f"{_listed([text])[1:-1]}: {_share(share)}" for text, share in shares.items())
            return f", shares: {{{listed}}}"
    return f", shares: {FILL_IN}"


def _share(share: float) -> str:
    """Two digits; all of them where two would say 1."""
    return f"{share:.2g}" if share < 0.995 else f"{share:.15g}"


def _number(name: str, kind: Kind, seen: Sequence[PublicColumns], *, predicted: bool) -> str:
    limits = _limits(kind)
    for public in seen:
        found, spread = public.range_of(name), public.spread_of(name)
        if found is not None and spread is not None:
            more = f", spread: {spread[1]:.15g}, centre: {spread[0]:.15g}, outside: clip" if predicted else ""
            bounds = f"low: {found[0]:.15g}, high: {found[1]:.15g}"
            return f"{{type: number, {bounds}{more}{limits}}}  # as in {public.name}"
    proposed = plausible(name)
    if proposed is not None:
        scale = ", scale: log" if proposed.log else ""
        bounds = f"low: {proposed.low:.15g}, high: {proposed.high:.15g}"
        return f"{{type: number, {bounds}{scale}{limits}}}  # proposed by its name: check it"
    codes = "  # if its numbers are codes: {type: category, categories: FILL_IN}" if kind.name == "whole" else ""
    return f"{{type: number, low: {FILL_IN}, high: {FILL_IN}{limits}}}{codes}"


def _limits(kind: Kind) -> str:
    return ", censored: bound" if kind.limits else ""


def _is_open_number(line: str) -> bool:
    return line.startswith(f"{{type: number, low: {FILL_IN}")


def _date(name: str, kind: Kind, seen: Sequence[PublicColumns]) -> str:
    written = "" if kind.format is None else f", format: {json.dumps(kind.format)}"
    if kind.formats:
        choices = " or ".join(json.dumps(one) for one in kind.formats)
        return (
            f"{{type: date, low: {FILL_IN}, high: {FILL_IN}, format: {FILL_IN}}}  # {choices}: the values do not tell"
        )
    for public in seen:
        found = public.amounts.get(name)
        if found is not None and len(found):
            first, last = (_EPOCH + datetime.timedelta(days=float(day)) for day in (found.min(), found.max()))
            years = f"low: {first.year}-01-01, high: {last.year + 1}-01-01"
            return f"{{type: date, {years}{written}}}  # as in {public.name}"
    return f"{{type: date, low: {FILL_IN}, high: {FILL_IN}{written}}}"


def _names_somebody(name: str) -> bool:
    words = name.lower().replace("-", "_").replace(" ", "_").split("_")
    return any(word in _NAMES_SOMEBODY for word in words)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _quoted(text: str) -> str:
    """One text in YAML: letters as they are, escapes for what no line shows (U+2028 would end a line)."""
    written = yaml.safe_dump(text, default_flow_style=True, allow_unicode=text.isprintable(), width=10**6)
    return written.removesuffix("...\n").strip()


def _listed(texts: Sequence[str]) -> str:
    """Several texts as one YAML list, each between quotation marks."""
    marked = (json.dumps(text, ensure_ascii=False) if text.isprintable() else _quoted(text) for text in texts)
    return f"[{', '.join(marked)}]"
