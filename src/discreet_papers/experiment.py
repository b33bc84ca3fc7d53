"""An experiment: one table or figure of a paper, as a YAML file that is read from top to bottom.

    title: Epsilon over epochs, account by account
    paper: yu                  # a key of PAPERS
    item: Figure 2
    shows: ...                 # what is computed, in a sentence or two
    prints: ...                # what the paper prints
    differs: ...               # how what is found differs from that, and why, where there are results
    minutes: {quick: 0.1, full: 0.2}
    data: [mnist]              # data sets by name, where there are any
    parts:                     # each of a kind of its own (KINDS), with what that kind takes
      - kind: epsilon
        ...
        quick: {...}           # keys that are otherwise in a quick run

A part is a list of cells. A cell is measured by itself, and its facts determine its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from discreet.core.errors import InputError
from discreet.core.yaml_files import LOADER, read_yaml
from discreet.plan.pydantic_base import Frozen, validate
from discreet_papers.papers import PAPERS
from discreet_papers.part import Cell, Mode, Part, over
from discreet_papers.parts.kinds import part_of


class Minutes(Frozen):
    """Estimated processor time of a run, in minutes, on one core of an ordinary machine."""

    quick: float = Field(ge=0)
    full: float = Field(ge=0)


class Header(Frozen):
    """The header of an experiment's file."""

    title: str
    paper: str
    item: str
    shows: str
    prints: str = ""
    differs: str = ""
    minutes: Minutes
    data: tuple[str, ...] = ()
    columns: int = Field(default=3, ge=1, le=4)
    """Panels side by side in the picture."""
    parts: tuple[dict[str, Any], ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment's file, with its parts in this mode."""

    name: str
    header: Header
    mode: Mode
    parts: tuple[Part, ...]

    def cells(self, seeds: int | None = None) -> list[tuple[Part, Cell]]:
        """All cells, each once, with the part that measures it."""
        found: dict[str, tuple[Part, Cell]] = {}
        for part in self.parts:
            for cell in part.cells(seeds):
                found.setdefault(cell.key, (part, cell))
        return list(found.values())


def names() -> list[str]:
    """The experiments that come with the library."""
    folder = resources.files("discreet_papers").joinpath("experiments")
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def chosen(wanted: Sequence[str]) -> list[str]:
    """The wanted experiments by name or path. The name of a paper stands for all its experiments; an empty list for
    all."""
    known = names()
    found: list[str] = []
    for one in wanted or known:
        if one in PAPERS:
            found += [name for name in known if read_header(name).paper == one]
        elif one in known or one.endswith((".yaml", ".yml")):
            found.append(one)
        else:
            raise InputError(
                f"unknown experiment {one!r}; known: {', '.join(known)}, the papers {', '.join(PAPERS)}, or the path "
                "of a .yaml file (discreet reproduce --list says more)"
            )
    return list(dict.fromkeys(found))


def read_header(name: str) -> Header:
    """The header alone; the parts are not read."""
    return _header(name, _read(name))


def read_experiment(name: str, mode: Mode) -> Experiment:
    """An experiment by name or path, with the parts of this mode."""
    header = read_header(name)
    parts = tuple(part_of(_in_mode(part, mode), f"experiment {name}: parts.{i}") for i, part in enumerate(header.parts))
    return Experiment(Path(name).stem if name.endswith((".yaml", ".yml")) else name, header, mode, parts)


def _read(name: str) -> Any:
    if name.endswith((".yaml", ".yml")):
        return read_yaml(Path(name))
    text = resources.files("discreet_papers").joinpath("experiments", f"{name}.yaml").read_text("utf-8")
    return yaml.load(text, LOADER)


def _header(name: str, data: object) -> Header:
    header = validate(Header, data, f"experiment {name}")
    if header.paper not in PAPERS:
        raise InputError(f"experiment {name}: unknown paper {header.paper!r}; known: {', '.join(PAPERS)}")
    return header


def _in_mode(part: Mapping[str, Any], mode: Mode) -> dict[str, Any]:
    """A part without its `quick` section; in a quick run, with these keys in place of the others."""
    plain = {key: value for key, value in part.items() if key != "quick"}
    quick = part.get("quick") or {}
    if not isinstance(quick, Mapping):
        raise InputError(f"experiment: quick must be a mapping of keys to values, got {quick!r:.80}")
    return over(plain, quick) if mode == "quick" else plain
