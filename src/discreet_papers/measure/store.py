"""Results as data: one JSON file for each experiment and mode, rewritten after each cell.

A file holds the cells of one mode (NAME.json, or NAME.quick.json), each with its facts, seed, result, CPU seconds, date
and software versions. An existing cell is not measured again, and a cell that does not fit its digest is refused:
numbers are measured, not typed.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from discreet.core.errors import InputError
from discreet.core.imports import extras
from discreet_papers.experiment import read_experiment
from discreet_papers.part import Cell, Facts, Mode, Part, key_of

_VERSIONS = ("discreet", "torch", "numpy", "scipy")
_FIELDS = ("name", "seed", "facts", "result", "seconds", "date", "made", "digest")


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell with its result, CPU seconds, date and origin (versions, or a source)."""

    name: str
    seed: int | None
    facts: Facts
    result: Mapping[str, Any]
    seconds: float
    date: str
    made: Mapping[str, str]

    @classmethod
    def now(cls, cell: Cell, result: Mapping[str, Any], seconds: float) -> Measured:
        """A cell measured just now, with the present versions."""
        return cls(cell.name, cell.seed, cell.facts, result, round(seconds, 2), _today(), versions())

    @property
    def key(self) -> str:
        """That of its cell."""
        return key_of(self.facts, self.seed)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, with a digest of everything else."""
        plain: dict[str, Any] = {
            "name": self.name,
            "seed": self.seed,
            "facts": self.facts,
            "result": self.result,
            "seconds": self.seconds,
            "date": self.date,
            "made": self.made,
        }
        return plain | {"digest": _digest(plain)}


class Store:
    """The file of an experiment in one mode."""

    def __init__(self, folder: Path, name: str, mode: Mode) -> None:
        self.path = folder / (f"{name}.json" if mode == "full" else f"{name}.{mode}.json")
        self.name, self.mode = name, mode
        self._cells = self._read()

    @property
    def cells(self) -> Sequence[Measured]:
        """The stored cells, in the order in which they were measured."""
        return list(self._cells.values())

    def __contains__(self, cell: Cell) -> bool:
        return cell.key in self._cells

    def of(self, facts: Facts) -> list[tuple[int | None, Mapping[str, Any]]]:
        """(seed, result) of every cell with these facts, by seed."""
        wanted = key_of(facts, None)
        found = [(one.seed, one.result) for one in self._cells.values() if key_of(one.facts, None) == wanted]
        return sorted(found, key=lambda pair: -1 if pair[0] is None else pair[0])

    def one(self, facts: Facts) -> Mapping[str, Any] | None:
        """The result of the cell with these facts, in which nothing is random; None if there is none."""
        return dict(self.of(facts)).get(None)

    def beside(self, name: str) -> Store:
        """The results of another experiment, of the same mode and in the same folder."""
        return Store(self.path.parent, name, self.mode)

    def parts(self, name: str) -> Sequence[Part]:
        """The parts of another experiment, as a full run has them."""
        return read_experiment(name, "full").parts

    def add(self, measured: Measured | Iterable[Measured]) -> None:
        """Rewrite the file with one more cell, or more. Cells that another process has added meanwhile are kept."""
        more = [measured] if isinstance(measured, Measured) else list(measured)
        self._cells = self._read() | {one.key: one for one in more}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(one.as_dict(), ensure_ascii=False, allow_nan=False) for one in self._cells.values()]
        head = json.dumps({"experiment": self.name, "mode": self.mode})[1:-1]
        text = f'{{{head}, "cells": [\n' + ",\n".join(lines) + "\n]}\n"
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(0o644)
            os.replace(temporary, self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _read(self) -> dict[str, Measured]:
        if not self.path.exists():
            return {}
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            head = {key: content[key] for key in ("experiment", "mode")}
            listed = list(content["cells"])
        except (OSError, ValueError, KeyError, TypeError):
            raise InputError(
                f"{self.path} is not a file of results; move it away, and its cells are run anew"
            ) from None
        if head != {"experiment": self.name, "mode": self.mode}:
            raise InputError(
                f"{self.path} holds {head['mode']} results of {head['experiment']}, not {self.mode} ones of "
                f"{self.name}; give every experiment and mode a file of its own"
            )
        found = [self._measured(at, one) for at, one in enumerate(listed)]
        return {one.key: one for one in found}

    def _measured(self, at: int, content: object) -> Measured:
        if not isinstance(content, dict) or set(content) != set(_FIELDS):
            raise InputError(f"{self.path}: cell {at} lacks fields or has strange ones; remove it, and it is run anew")
        digest = content.pop("digest")
        if digest != _digest(content):
            raise InputError(
                f"{self.path}: cell {at} ({content['name']}) was changed after it was measured; remove the cell or the "
                "file, and it is run anew"
            )
        return Measured(**content)


def versions() -> dict[str, str]:
    """Python's, and those of what the results depend on."""
    return {"python": platform.python_version(), **extras.versions(*_VERSIONS)}


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _digest(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
