"""`discreet init table FILE`: a schema from a few questions on a terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import typer

from discreet.core.disk import write_output
from discreet.core.errors import InputError, typed

A = TypeVar("A")


def ask(table: Path, out: Path | None) -> str:
    """Ask what must be declared of a table, write its schema to `out`, and return what to do next.

    No value of the table is shown, and values are used only for the types of columns. `InputError` without a terminal.
    """
    from discreet.data.tables.drafting.draft import cautions, draft
    from discreet.data.tables.drafting.draft_column import Known
    from discreet.data.tables.drafting.filling import column_names, column_of, filled, open_columns

    out = out or Path(f"{table.stem}.yaml")
    if out.exists():
        raise InputError(f"{out} exists already; name another file with --out")
    if not sys.stdin.isatty():
        raise InputError("discreet init table FILE asks questions on a terminal; `discreet schema FILE` writes a draft")
    first = draft(table)
    names = column_names(first)
    typer.echo(
        f"{table.name} has the columns {', '.join(names)}.\nNo value is shown or published. Leave with Ctrl-C.\n"
    )
    for caution in cautions(first):
        typer.echo(f"{caution}\n")
    target = _asked("Which column is to be predicted?", lambda said: _one_of(said, names))
    unit = _asked(
        "Whose is a row? A column that names the person; or row, if a person has one row at most.",
        lambda said: _one_of(said, [*names, "row"]),
        "row",
    )
    population = _asked(
        f"How many {'rows' if unit == 'row' else 'people'} are there, as the public may know? A round number will do.",
        _population,
    )
    test = _asked("A table that may be public, to measure on and take ranges from? A file, or nothing.", _file, "")
    known = Known(target, unit, population, () if test is None else (test,))
    text = draft(table, known=known)
    answers = {}
    for column in open_columns(text):
        free = unit == "row" and column.name != target  # what is predicted, and what several rows tell, is not bought
        question, default = _question(column.name, column.kind, column.formats, free=free)
        answers[column.name] = _asked(question, _answer_of(column, column_of, free=free), default)
    write_output(out, filled(text, answers, population).encode(), replace=False, advice="name another with --out")
    option = "" if test is None else f" --test {typed(test)}"
    return f"{out} is written. Next: discreet train {typed(table)} --schema {typed(out)} --epsilon 3{option}"


def _question(name: str, kind: str, formats: tuple[str, ...], *, free: bool) -> tuple[str, str | None]:
    """The question in one sentence, and the answer that an empty line stands for."""
    default = "buy" if free else None
    buy = "; nothing: buy it for a small part of the budget" if free else ""
    if kind == "number":
        asked = f"{name}: between which two numbers can it be, by what anybody may know? (0 120{buy}; ignore)"
        return asked, default
    if kind == "date":
        first = f" First how it is written: {' or '.join(formats)}." if formats else ""
        return f"{name}: between which two days can it be?{first} (2015-01-01 2024-12-31; ignore)", None
    asked = f"{name}: which values can it have, by its form or code book? (A, B, C{buy}; text: it is free text; ignore)"
    return asked, default


def _answer_of(column: object, check: Callable[..., str], *, free: bool) -> Callable[[str], str]:
    def answer(said: str) -> str:
        if said == "buy" and not free:
            raise InputError("this cannot be bought: it is predicted, or a person may have several rows")
        check(column, said)
        return said

    return answer


def _asked(question: str, read: Callable[[str], A], default: str | None = None) -> A:
    """The answer to a question, asked again until it can be read. An empty line is the `default`."""
    while True:
        said = typer.prompt(f"{question}\n", default=default or "", show_default=False, prompt_suffix="> ").strip()
        try:
            return read(said)
        except InputError as error:
            typer.echo(f"{error}\n")


def _one_of(said: str, names: list[str]) -> str:
    if said not in names:
        raise InputError(f"there is no {said!r}; say one of {', '.join(names)}")
    return said


def _population(said: str) -> float:
    try:
        value = float(said.replace(" ", "").replace("_", ""))
    except ValueError:
        value = math.nan
    if not 1 < value < 1e12:
        raise InputError("say a number, such as 5000")
    return value


def _file(said: str) -> Path | None:
    if said and not Path(said).exists():
        raise InputError(f"there is no file {said}; say another, or nothing")
    return Path(said) if said else None
