"""Pages of reference that are made from the code: every public name from its docstring, every command from its help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import discreet
from discreet.cli.app import COMMANDS, application
from discreet.cli.show.examples import EXAMPLES

ROOMS = {
    "Describe and price": ("plan", "accounting", "core.adjacency", "core.errors"),
    "Train": ("training", "data", "methods", "features", "language"),
    "Clip and draw": ("clipping", "clipping.geometry", "clipping.rules", "sampling"),
    "Spend": ("ledger", "queries"),
    "Account": ("accounting.adaptive.filters", "accounting.adaptive.odometers", "accounting.schedules"),
    "Publish, check and use": ("publication", "verification", "audit", "testing", "certificate", "prediction"),
    "With others": ("estimators", "integrations.lightning", "integrations.huggingface", "recipes"),
    "Below": ("mechanism", "randomness"),
}
"""The public modules below discreet, by what one wants to do."""


def exported(room: str) -> list[str]:
    """The names that a module says are public, or, where it says nothing, those that it defines itself."""
    module = import_module(f"discreet.{room}")
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = [(name, value) for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [name for name, value in own if not name.startswith("_") and value.__doc__]


def summary(value: object) -> str:
    """The first sentence of a docstring; "" of a constant."""
    if not callable(value) or value.__doc__ is None or isinstance(value, str):
        return ""
    first = " ".join(inspect.cleandoc(value.__doc__).partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", first)[0].replace("|", "\\|")


def api_page(module_name: str, names: list[str]) -> str:
    """A module's page; names that discreet itself exports are described there."""
    module = import_module(module_name)
    top = () if module_name == "discreet" else tuple(name for name in names if name in discreet.__all__)
    own = [name for name in names if name not in top]
    parts = [f"# {module_name}", inspect.cleandoc(module.__doc__ or "")]
    rows = [(f"[`{name}`](discreet.md#discreet.{name})", name) for name in top]
    rows += [(f"[`{name}`](#{module_name}.{name})", name) for name in own]
    table = [f"| {at} | {summary(getattr(module, name))} |" for at, name in rows]
    parts.append("\n".join(["| name | what it is |", "|---|---|", *table]))
    parts += [f"::: {module_name}.{name}" for name in own]
    return "\n\n".join(parts) + "\n"


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield words, command
        return
    for name, one in below.items():
        yield from commands(one, (*words, name))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("\\[", "[")


def command_page() -> str:
    """All commands with their options, as --help shows them."""
    from typer.main import get_command

    parts = [
        "# Commands",
        "Every command, its options and an example, in the words of `--help`. Exit codes: 0 done; 1 a check failed; "
        "2 bad usage or input, said in one line; 3 the budget is exhausted; 70 a defect of discreet; 130 or 143 "
        "interrupted.",
    ]
    for words, command in commands(get_command(application(COMMANDS)), ()):
        name = " ".join(words)
        parts += [f"## discreet {name}", (command.help or "").strip(), f"```text\n{EXAMPLES[name]}\n```"]
        rows = [_row(one) for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
        parts.append("\n".join(["| option | what it says |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{parameter.name.upper()}`"
    else:
        names = ", ".join(f"`{one}`" for one in [*parameter.opts, *parameter.secondary_opts])
    default = parameter.default
    said = _cell(parameter.help or "")
    if isinstance(default, str | int | float) and not isinstance(default, bool) and "default" not in said:
        said += f" Default: `{getattr(default, 'value', default)}`."
    return f"| {names} | {said} |"


def write_reference(target: Path) -> list[Any]:
    """Write the pages; their part of the navigation."""
    folder = target / "reference"
    folder.mkdir()
    (folder / "commands.md").write_text(command_page(), "utf-8")
    (folder / "discreet.md").write_text(api_page("discreet", list(discreet.__all__)), "utf-8")
    entries: list[Any] = [{"discreet": "reference/discreet.md"}]
    lines = ["# Python", "Every public name, by its docstring. What most programs need is in [discreet](discreet.md)."]
    for heading, rooms in ROOMS.items():
        lines.append(f"## {heading}")
        below = []
        for room in rooms:
            name = f"{room}.md"
            (folder / name).write_text(api_page(f"discreet.{room}", exported(room)), "utf-8")
            about = inspect.cleandoc(import_module(f"discreet.{room}").__doc__ or "").partition("\n\n")[0]
            below.append(f"- [discreet.{room}]({name}): {' '.join(about.split())}")
            entries.append({f"discreet.{room}": f"reference/{name}"})
        lines.append("\n".join(below))
    (folder / "index.md").write_text("\n\n".join(lines) + "\n", "utf-8")
    return [{"Commands": "reference/commands.md"}, {"Python": ["reference/index.md", *entries]}]
