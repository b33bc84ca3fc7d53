"""The elements of an experiment: parts, the cells that they measure, and results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from discreet_papers.pages.pictures import Panel
from discreet_papers.pages.tables import Table

Facts = Mapping[str, Any]
Mode = Literal["quick", "full"]


@dataclass(frozen=True, slots=True)
class Cell:
    """A unit of measurement. `facts` is JSON; `seed` is None if nothing is random."""

    name: str
    facts: Facts
    seed: int | None = None

    @property
    def key(self) -> str:
        """The same for cells with equal facts and seed, whatever their name."""
        return key_of(self.facts, self.seed)


def key_of(facts: Facts, seed: int | None) -> str:
    """A digest of facts and seed."""
    text = json.dumps([facts, seed], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Setting:
    """The environment of a cell: the folder of data sets, whether training shows a progress bar, and the device.

    `kept` holds data that is slow to load and that the next cell may need again.
    """

    data: Path | None = None
    progress: bool = False
    device: str = "cpu"
    kept: dict[str, Any] = field(default_factory=dict, compare=False)


class Results(Protocol):
    """Results by the facts of their cells."""

    def of(self, facts: Facts) -> Sequence[tuple[int | None, Mapping[str, Any]]]:
        """(seed, result) of every cell with these facts, by seed; empty if there is none."""

    def one(self, facts: Facts) -> Mapping[str, Any] | None:
        """The result of the cell with these facts, in which nothing is random; None if there is none."""

    def beside(self, name: str) -> Results:
        """The results of another experiment, in the same mode and folder."""

    def parts(self, name: str) -> Sequence[Part]:
        """The parts of another experiment, as a full run has them."""


class Part(Protocol):
    """One part of an experiment. A kind is a frozen model with these four methods."""

    def cells(self, seeds: int | None) -> Sequence[Cell]:
        """The cells to measure; `seeds` replaces the part's own number of seeds."""

    def measure(self, cell: Cell, setting: Setting) -> dict[str, Any]:
        """The result of a cell, JSON-ready."""

    def tables(self, results: Results) -> Sequence[Table]:
        """The tables of the available results."""

    def panels(self, results: Results) -> Sequence[Panel]:
        """The panels of the available results."""


def over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes`, mapping by mapping; None takes a key away."""
    found = dict(base)
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = over(found[key], value)
        elif value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found
