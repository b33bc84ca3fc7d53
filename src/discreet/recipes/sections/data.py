"""The section of data: `data: mnist`, or a data set with arguments, `data: {name: cancer, split: 3}`."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

from pydantic import model_validator

from discreet.core.adjacency import Unit
from discreet.data import DATASETS, Split
from discreet.data.sets.splits import table
from discreet.recipes.named import Named, known

_SOURCES = DATASETS | {"table": table}


class Source(Named):
    """A data set by name, with its arguments as further keys; or a table, whose schema is the recipe's."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _known(self) -> Source:
        known(self.name, _SOURCES)
        try:
            inspect.signature(_SOURCES[self.name]).bind(None, **(self.model_extra or {}))
        except TypeError as error:
            raise ValueError(f"{self.name} cannot take these arguments: {error}") from None
        return self

    def load(self, path: Path | None, unit: Unit) -> Split:
        """The data set, from `path` where it needs one.

        A built-in data set with users may be used with either unit; your own arrays name users only on purpose.
        """
        split = _SOURCES[self.name](path, **(self.model_extra or {}))
        return replace(split, units=None) if unit is Unit.EXAMPLE and self.name != "npz" else split
