"""The options that a run of a language model was begun with: kept in its folder, and used again by `--resume`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from discreet.certificate.canonical import strict_json
from discreet.certificate.described import About
from discreet.core.disk import real_text, write_durably
from discreet.core.errors import InputError
from discreet.jobs.language.language_facts import Budget, LanguageFacts, Settings
from discreet.jobs.run_folders import begun_folder
from discreet.jobs.tables.table_facts import TableFacts

FILE = "language.json"
_FOUND = "classes"
"""The classes that were found, beside `--classes`, as they may be those of a table."""

Options = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LanguageCommandLine:
    """All that the command line says of a run. `path` is None if no file was named."""

    path: Path | None
    facts: LanguageFacts
    table: TableFacts
    budget: Budget
    settings: Settings
    out: Path | None
    about: About

    def options(self) -> dict[str, object]:
        """Options by their names, as plain values; None where nothing was said. `given` leaves out
        settings that were not said."""
        return {
            "file": real_text(self.path),
            "--test": real_text(self.table.test),
            "--text": self.table.text,
            "--target": self.table.target,
            "--unit": self.table.unit,
            "--classes": self.table.classes,
            **{f"--{name}": value for name, value in asdict(self.facts).items()},
            "--model": real_text(self.facts.model),
            **{f"--{name}": value for name, value in asdict(self.budget).items()},
            "--out": real_text(self.out),
            "--title": self.about.title,
            "--note": self.about.note,
            **asdict(self.settings),
        }

    def given(self, settings: Sequence[str]) -> dict[str, object]:
        """The options that were given; `settings` as they were written."""
        named = {one.partition("=")[0] for one in settings}
        defaults = {one.name for one in fields(Settings)} - named
        return {name: value for name, value in self.options().items() if value is not None and name not in defaults}

    @classmethod
    def of(cls, begun: Mapping[str, Any]) -> LanguageCommandLine:
        """The inverse of `options`. `KeyError`, `TypeError` or `ValueError` if these are no such options."""

        def path(name: str) -> Path | None:
            return None if begun[name] is None else Path(begun[name])

        facts = {one.name: begun[f"--{one.name}"] for one in fields(LanguageFacts)}
        words = {name: begun[f"--{name}"] for name in ("target", "unit", "text", "classes")}
        found = cls(
            path("file"),
            LanguageFacts(**facts | {"model": path("--model")}),
            TableFacts(test=path("--test"), **words),
            Budget(*(begun[f"--{one.name}"] for one in fields(Budget))),
            Settings(**{one.name: begun[one.name] for one in fields(Settings)}),
            path("--out"),
            About(title=begun["--title"], note=begun["--note"]),
        )
        # a damaged file may have any value in any place
        for part in (found.facts, found.table, found.budget, found.settings):
            for name, kind in get_type_hints(type(part)).items():
                TypeAdapter(kind).validate_python(getattr(part, name), strict=True)
        return found


def is_begun(folder: Path) -> bool:
    """Whether `folder`, or the run folder beside it, is that of a run of a language model."""
    return (begun_folder(folder, FILE) / FILE).is_file()


def keep(folder: Path, options: Options, classes: Sequence[str]) -> None:
    """Write them into the folder of a new run; durable on return."""
    facts = {**options, _FOUND: list(classes)}
    write_durably(folder / FILE, (json.dumps(facts, indent=2) + "\n").encode())


def begun(folder: Path, given: Options) -> LanguageCommandLine:
    """The options with which the run in `folder` was begun.

    `InputError` for an option given again that says something else: texts of another file would be drawn as if they
    were of this.
    """
    options = _read(folder)
    if "--epsilon" not in options:
        raise InputError(
            f"{folder} was begun by an earlier version of discreet, which kept fewer options of a run; go on with that "
            "version, or begin another run"
        )
    for name, value in given.items():
        if options.get(name) != value:
            raise InputError(
                f"{folder} was begun with {name} {options.get(name)}, not {value}; leave it out, or begin another run"
            )
    try:
        return LanguageCommandLine.of(options)
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{folder / FILE} is not what `discreet train` wrote; begin another run") from None


def check_classes(folder: Path, classes: Sequence[str]) -> None:
    """Refuse to go on with a run under other classes, as where the table that they are from was changed."""
    if _read(folder).get(_FOUND) != list(classes):
        raise InputError(f"{folder} was begun with other classes than {', '.join(classes)}; restore the --test table")


def _read(folder: Path) -> dict[str, Any]:
    try:
        found = strict_json((folder / FILE).read_bytes(), FILE)
    except OSError:
        raise InputError(f"{folder} has no {FILE}; it is no run of a language model") from None
    if not isinstance(found, dict):
        raise InputError(f"{folder / FILE} is not what `discreet train` wrote; begin another run")
    return found
