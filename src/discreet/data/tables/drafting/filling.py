"""The open fields of a draft, and the draft with answers filled in."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import yaml

from discreet.core.errors import InputError
from discreet.data.tables.columns import FILL_IN, LARGEST
from discreet.data.tables.drafting.ranges_bought import noise_for

BUY, IGNORE, TEXT = "buy", "ignore", "text"
"""Special answers: buy the range or categories, leave the column out, read it as free text."""

_KINDS = ("number", "category", "date")


@dataclass(frozen=True, slots=True)
class Open:
    """A column of a draft with something to fill in. `kind`: number, category or date; `censored`: some numbers are
    limits; `format`: how days are written; `formats`: of a date whose values do not tell which of them it is."""

    name: str
    kind: str
    censored: bool = False
    format: str | None = None
    formats: tuple[str, ...] = ()


def column_names(text: str) -> list[str]:
    """All columns of a draft, in order."""
    return [name for name, _, _ in _entries(text)]


def open_columns(text: str) -> list[Open]:
    """The columns of a draft with something to fill in, in order."""
    found = []
    for name, entry, comment in _entries(text):
        fields = {key.value: value.value for key, value in entry.value}
        kind, form = fields["type"], fields.get("format")
        if kind not in _KINDS or FILL_IN not in fields.values():
            continue
        formats = tuple(re.findall(r'"(%[^"]*)"', comment)) if kind == "date" else ()
        found.append(Open(name, kind, "censored" in fields, None if form == FILL_IN else form, formats))
    return found


def filled(text: str, answers: Mapping[str, str], population: float) -> str:
    """The draft with an answer for each open column; everything bought is bought together (`noise_for`)."""
    bought = sum(answer == BUY for answer in answers.values())
    noise = noise_for(bought, population) if bought else 0.0
    known = {one.name: one for one in open_columns(text)}
    pieces, end = [], 0
    for name, entry, comment in _entries(text):
        if name in known and name in answers:
            pieces += [text[end : entry.start_mark.index], column_of(known[name], answers[name], noise)]
            end = entry.end_mark.index + len(comment)
    return "".join(pieces) + text[end:]


def _entries(text: str) -> Iterator[tuple[str, yaml.MappingNode, str]]:
    """Name, entry and the rest of the line of each column. The parser says where in the text an entry stands."""
    draft = yaml.compose(text, yaml.SafeLoader)
    assert isinstance(draft, yaml.MappingNode)
    columns = next(value for key, value in draft.value if key.value == "columns")
    for key, entry in columns.value:
        yield key.value, entry, text[entry.end_mark.index :].partition("\n")[0]


def column_of(column: Open, answer: str, noise: float = 1.0) -> str:
    """The schema's entry for an answer. `InputError` for an impossible answer, with the possible ones.

    | kind     | answers                                         |
    |----------|-------------------------------------------------|
    | number   | two numbers: 0 120; buy; ignore                 |
    | date     | two days: 2015-01-01 2024-12-31; ignore. Where formats are open, the format first |
    | category | names parted by commas: A, B, C; buy; ignore; text |
    """
    if answer == IGNORE:
        return "{type: ignore}"
    if column.kind == "date":
        return _date(column, answer)
    censored = ", censored: bound" if column.censored else ""
    if answer == BUY:
        return f"{{type: {column.kind}, buy: {{noise: {noise:g}}}{censored}}}"
    if column.kind == "number":
        low, high = _two_numbers(answer)
        return f"{{type: number, low: {low:.15g}, high: {high:.15g}{censored}}}"
    if answer == TEXT:
        return "{type: text}"
    names = [name.strip() for name in answer.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError("give at least two different names, parted by commas: A, B, C")
    return f"{{type: category, categories: {json.dumps(names, ensure_ascii=False)}}}"


def _two_numbers(answer: str) -> tuple[float, float]:
    parts = re.split(r"\s+(?:to\s+)?|\s*;\s*", answer.strip())
    try:
        low, high = (float(part.replace(",", ".")) for part in parts)
    except ValueError:
        raise InputError("give two numbers, the lower one first: 0 120") from None
    if not -LARGEST <= low < high <= LARGEST:
        raise InputError("give the lower number first: 0 120")
    return low, high


def _date(column: Open, answer: str) -> str:
    parts, form = answer.split(), column.format
    if column.formats:
        form, parts = (parts[0] if parts else ""), parts[1:]
        if form not in column.formats:
            raise InputError(f"say first how days are written: {' or '.join(column.formats)}")
    try:
        first, last = (datetime.date.fromisoformat(part) for part in parts)
    except ValueError:
        raise InputError("give two days, the earlier one first: 2015-01-01 2024-12-31") from None
    if not first < last:
        raise InputError("give the earlier day first: 2015-01-01 2024-12-31")
    end = "" if form is None else f", format: {json.dumps(form)}"
    return f"{{type: date, low: {first}, high: {last}{end}}}"
