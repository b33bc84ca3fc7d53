"""Going on with a run on the command line: what an interruption says, and options that are given again with
`--resume`, which must be those that the run was begun with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from discreet.certificate.described import About
from discreet.core.disk import real_text
from discreet.core.errors import InputError, Interrupted, typed
from discreet.jobs.command_line import CommandLine
from discreet.jobs.source import Work
from discreet.recipes import Recipe
from discreet.recipes.recipe_files import recipe_of, settings_of


@contextmanager
def resumable(folder: Path, *, finish: bool) -> Iterator[None]:
    """An interruption inside says which command goes on; `finish`: and which one publishes what there is."""
    try:
        yield
    except Interrupted as stop:
        more = f", or publish what there is with --resume {typed(folder)} --finish" if finish else ""
        raise Interrupted(stop.happened, stop.signal, f"go on with --resume {typed(folder)}{more}") from None


def check_again(again: CommandLine, folder: Path, work: Work, target: Path, about: About) -> None:
    """Refuse what is said again beside `--resume` and differs from the run in `folder`, which was begun with `work`,
    `target` and `about`.

    Without the recipe or table, settings are compared one by one; with it, they are all the command says, with the
    defaults of what it leaves out. Options of a table go with its name.
    """
    for name, given, kept in (
        ("--title", again.about.title, about.title),
        ("--note", again.about.note, about.note),
        ("--out", real_text(again.out), real_text(target)),
        ("--data", real_text(again.data), real_text(work.data)),
    ):
        if given is not None and given != kept:
            raise _differs(folder, f"{name} {kept}", f"{name} {given}")
    if again.recipe is None:
        given_of_table = [*again.options.given, *(["--sites"] if again.sites is not None else [])]
        if given_of_table:
            raise InputError(
                f"{given_of_table[0]} with --resume can be compared with the run if the table is named too; leave it "
                "out"
            )
        recipe = recipe_of(work.recipe.model_dump(mode="json"), "--resume", again.settings, again.overrides)
    else:
        try:
            said = Work.of(replace(again, data=work.data), queries=work.recipe.center is not None)
        except InputError as error:
            raise InputError(f"{_go_on(folder)} ({error})") from None
        kept, given = _sources(work), _sources(said)
        if kept != given:
            raise _differs(folder, kept, given)
        recipe = said.recipe
    _check_recipes(folder, work.recipe, recipe)


def _check_recipes(folder: Path, kept: Recipe, again: Recipe) -> None:
    for old, new in zip(settings_of(kept), settings_of(again), strict=False):
        if old != new:
            raise _differs(folder, old, new)
    if kept.model_dump(mode="json") != again.model_dump(mode="json"):
        raise _differs(folder, "its recipe and schema", "another")


def _sources(work: Work) -> str:
    """The private table and what is declared public beside it, for people."""
    if work.table is None:
        return "a recipe"
    path, *public = work.table.as_dict().items()
    return " ".join([str(path[1]), *(f"--{name} {one}" for name, one in public if one is not None)])


def _differs(folder: Path, kept: str, given: str) -> InputError:
    return InputError(f"{folder} was begun with {kept}, not {given}; {_go_on(folder)}")


def _go_on(folder: Path) -> str:
    return f"leave out what is said again, and it goes on as it was begun: discreet train --resume {typed(folder)}"
