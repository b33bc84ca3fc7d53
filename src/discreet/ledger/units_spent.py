"""What each unit has spent of a budget of its own, in a file for the holder of the data alone.

It is as private as the data: no ledger, certificate or page holds any of it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from discreet.core.array_types import Array, IntArray
from discreet.core.disk import write_durably
from discreet.core.errors import InputError

FILE = "individual.npz"
"""Its name in the folder of a run."""

PARTS = 2**32
"""Budgets are counted in whole parts of a step at full length, so that their sums do not round."""


@dataclass(frozen=True, slots=True, eq=False)
class UnitsSpent:
    """`spent`: by each unit so far, in parts; `allowed`: to each unit so far, in parts."""

    spent: IntArray
    allowed: int

    @property
    def shares(self) -> Array:
        """The share of its budget that each unit has used."""
        shares: Array = self.spent / max(1, self.allowed)
        return shares

    def save(self, path: Path) -> None:
        """Replace the file at `path` durably, readable by its owner alone (mode 0600)."""
        write_durably(path, partial(np.savez, spent=self.spent, allowed=np.int64(self.allowed)), mode=0o600)

    @classmethod
    def load(cls, path: Path) -> UnitsSpent:
        """The content of a file by `save`; `InputError` if there is none."""
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as content:
                return cls(content["spent"].astype(np.int64), int(content["allowed"]))
        except (OSError, ValueError, KeyError, BadZipFile, EOFError):
            raise InputError(
                f"{path} does not say what units have spent: a run keeps that only with keep_spent, and if each unit "
                "has a budget of its own (sampling: individual)"
            ) from None
