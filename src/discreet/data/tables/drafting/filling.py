"""The open fields of a draft, and the draft with answers filled in."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from discreet.core.errors import InputError
from discreet.data.tables.columns import FILL_IN, LARGEST
from discreet.data.tables.drafting.ranges_bought import noise_for

BUY, IGNORE, TEXT = "buy", "ignore", "text"
"""Special answers: buy the range or categories, leave the column out, read it as free text."""

_LINE = re.compile(r"^  (?P<key>.+?): (?P<column>\{type: (?P<kind>number|category|date)[,}].*)$")


@dataclass(frozen=True, slots=True)
class Open:
    """A column of a draft with something to fill in. `kind`: number, category or date; `formats`: of a date whose
    values do not tell which of them it is."""

    name: str
    kind: str
    formats: tuple[str, ...] = ()


def column_names(text: str) -> list[str]:
    """All columns of a draft, in order."""
    keys = re.findall(r"^  (.+?): \{type: ", text, re.MULTILINE)
    return [str(yaml.safe_load(key)) for key in keys]


def open_columns(text: str) -> list[Open]:
    """The columns of a draft with something to fill in, in order."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None or FILL_IN not in line.partition("  #")[0]:
            continue
        formats = tuple(re.findall(r'"(%[^"]*)"', line.partition("  #")[2])) if match["kind"] == "date" else ()
        found.append(Open(str(yaml.safe_load(match["key"])), match["kind"], formats))
    return found


def filled(text: str, answers: Mapping[str, str], population: float) -> str:
    """The draft with an answer for each open column; everything bought is bought together (`noise_for`)."""
    bought = sum(answer == BUY for answer in answers.values())
    noise = noise_for(bought, population) if bought else 0.0
    known = {one.name: one for one in open_columns(text)}
    lines = []
    for line in text.splitlines(keepends=True):
        match = _LINE.match(line.rstrip("\n"))
        name = None if match is None else str(yaml.safe_load(match["key"]))
        if match is not None and name in known and name in answers:
            line = f"  {match['key']}: {column_of(known[name], answers[name], match['column'], noise)}\n"
        lines.append(line)
    return "".join(lines)


def column_of(column: Open, answer: str, drafted: str = "", noise: float = 1.0) -> str:
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
        return _date(column, answer, drafted)
    if answer == BUY:
        return _with_tail(f"{{type: {column.kind}, buy: {{noise: {noise:g}}}", drafted)
    if column.kind == "number":
        low, high = _two_numbers(answer)
        return _with_tail(f"{{type: number, low: {low:.15g}, high: {high:.15g}", drafted)
    if answer == TEXT:
        return "{type: text}"
    names = [name.strip() for name in answer.split(",") if name.strip()]
    if len(names) < 2 or len(set(names)) < len(names):
        raise InputError("give at least two different names, parted by commas: A, B, C")
    return f"{{type: category, categories: {json.dumps(names, ensure_ascii=False)}}}"


def _with_tail(start: str, drafted: str) -> str:
    return start + (", censored: bound}" if "censored: bound" in drafted else "}")


def _two_numbers(answer: str) -> tuple[float, float]:
    parts = re.split(r"\s+(?:to\s+)?|\s*;\s*", answer.strip())
    try:
        low, high = (float(part.replace(",", ".")) for part in parts)
    except ValueError:
        raise InputError("give two numbers, the lower one first: 0 120") from None
    if not -LARGEST <= low < high <= LARGEST:
        raise InputError("give the lower number first: 0 120")
    return low, high


def _date(column: Open, answer: str, drafted: str) -> str:
    written = re.search(r', format: ("[^"]*")', drafted.partition("  #")[0])
    parts = answer.split()
    form = None if written is None else json.loads(written[1])
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
