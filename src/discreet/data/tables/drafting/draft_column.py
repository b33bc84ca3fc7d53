"""The line of a column in a draft of a schema."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from discreet.data.tables.categories import TRUE, words_of
from discreet.data.tables.columns import EPOCH, FILL_IN
from discreet.data.tables.drafting.from_public import PublicColumns
from discreet.data.tables.drafting.plausible import plausible
from discreet.data.tables.files.column_kinds import Kind

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

_PERSONS = ("patient", "person", "subject", "participant", "customer", "client", "user", "member", "kunde", "proband")
"""Whole names of columns that say whose a row is."""

NO_NAME = "column 1"
"""The first column of a table, if its name is empty."""

ROW_NUMBERS = "{type: ignore}  # by its name, numbers of rows, as pandas and R write them"

_ROW_NUMBERS = re.compile(r"__index_level_\d+__|Unnamed: 0")

_FREE_TEXT = "of free text, {type: text} if alone"


@dataclass(frozen=True, slots=True)
class Known:
    """Facts about a table that the user states. `public`: tables declared public, whose values may be used.
    `buy_ranges`: buy the unknown ranges of numbers. `balance`: weigh all classes alike, by their shares."""

    target: str | None = None
    unit: str | None = None
    population: float | None = None
    public: tuple[Path, ...] = ()
    buy_ranges: bool = False
    balance: bool = False


NOTHING = Known()


def column_line(name: str, kind: Kind, seen: Sequence[PublicColumns], known: Known) -> str:
    """The line of a column: its type, its range or categories if they may be known, and where they come from."""
    if name == known.unit != "row":
        return "{type: ignore}  # says whose a row is; no model sees it"
    if _ROW_NUMBERS.fullmatch(name) and name != known.target:
        return ROW_NUMBERS
    if names_somebody(name) and name != known.target:
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
                listed = listed_texts(public.texts[name])
                shares = _shares(name, kind, seen, known)
                two = name == known.target and len(public.texts[name]) == 2
                of = "; the report draws its curves for the second" if two else ""
                return f"{{type: category, categories: {listed}{shares}}}  # those of {public.name}{of}"
            if name in public.prose and name != known.target:
                return f"{{type: text}}  # in {public.name} nearly every row has a text of its own"
            if name in public.unlike:
                why = f"in {public.name} nearly every row has another value; {_FREE_TEXT}"
                return f"{{type: ignore}}  # {why}"
        shares = _shares(name, kind, seen, known)
        return f"{{type: category, categories: {FILL_IN}{shares}}}  # {_FREE_TEXT}, else {{type: ignore}}"
    return "{type: ignore}  # values of this type cannot be used"


def _boolean(name: str, kind: Kind, seen: Sequence[PublicColumns], known: Known) -> str:
    """Two words for what is predicted, if a public table has them: those of the private table are not looked at."""
    shares = _shares(name, kind, seen, known)
    for public in seen if name == known.target else ():
        words = words_of(public.texts.get(name, ()))
        if words is not None:
            return f"{{type: boolean, words: {listed_texts(words)}{shares}}}  # those of {public.name}"
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
            if min(shares.values()) < 1e-9:  # a public table with one class does not say how rare the other is
                break
            listed = ", ".join(f"{listed_texts([text])[1:-1]}: {_share(share)}" for text, share in shares.items())
            return f", shares: {{{listed}}}"
    return f", shares: {FILL_IN}"


def _share(share: float) -> str:
    """Two digits; all of them where two would say 1."""
    return f"{share:.2g}" if share < 0.995 else f"{share:.15g}"


def _number(name: str, kind: Kind, seen: Sequence[PublicColumns], *, predicted: bool) -> str:
    limits, proposed = limits_of(kind), plausible(name)
    scale = ", scale: log" if proposed is not None and proposed.log else ""
    for public in seen:
        found, spread = public.range_of(name), public.spread_of(name)
        if found is not None and spread is not None:
            more = f", spread: {spread[1]:.15g}, centre: {spread[0]:.15g}, outside: clip" if predicted else scale
            bounds = f"low: {found[0]:.15g}, high: {found[1]:.15g}"
            return f"{{type: number, {bounds}{more}{limits}}}  # as in {public.name}"
    if proposed is not None:
        bounds = f"low: {proposed.low:.15g}, high: {proposed.high:.15g}"
        return f"{{type: number, {bounds}{scale}{limits}}}  # proposed by its name: check it"
    codes = "  # if its numbers are codes: {type: category, categories: FILL_IN}" if kind.name == "whole" else ""
    return f"{{type: number, low: {FILL_IN}, high: {FILL_IN}{limits}}}{codes}"


def limits_of(kind: Kind) -> str:
    """The field of a column in which some numbers are limits, such as <0.5; "" for others."""
    return ", censored: bound" if kind.limits else ""


def is_open_number(line: str) -> bool:
    """Whether the line is of a number whose range is left to fill in."""
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
            first, last = (EPOCH + datetime.timedelta(days=float(day)) for day in (found.min(), found.max()))
            years = f"low: {first.year}-01-01, high: {last.year + 1}-01-01"
            return f"{{type: date, {years}{written}}}  # as in {public.name}"
    return f"{{type: date, low: {FILL_IN}, high: {FILL_IN}{written}}}"


def names_somebody(name: str) -> bool:
    """Whether a column's values tell who somebody is, by its name."""
    words = name.lower().replace("-", "_").replace(" ", "_").split("_")
    return name.lower() in _PERSONS or any(word in _NAMES_SOMEBODY for word in words)


def quoted(text: str) -> str:
    """One text in YAML, on one line: letters as they are, escapes for what no line shows, as what would end it."""
    shown = text.isprintable()
    written = yaml.safe_dump(text, default_style=None if shown else '"', allow_unicode=shown, width=10**6)
    return written.removesuffix("...\n").strip()


def listed_texts(texts: Sequence[str]) -> str:
    """Several texts as one YAML list, each between quotation marks."""
    marked = (json.dumps(text, ensure_ascii=False) if text.isprintable() else quoted(text) for text in texts)
    return f"[{', '.join(marked)}]"
