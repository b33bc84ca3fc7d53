"""Every command of the command line, by its words, as the parser has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from discreet.cli.app import COMMANDS as ALL
from discreet.cli.app import application
from discreet.cli.show.examples import with_examples


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(words), command
        return
    for name, one in below.items():
        yield from _commands(one, (*words, name))


ROOT = with_examples(typer.main.get_command(application(ALL)))
COMMANDS = dict(_commands(ROOT))
