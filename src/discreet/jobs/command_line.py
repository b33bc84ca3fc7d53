"""What a command line says of a run, before anything is loaded for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from discreet.certificate.described import About
from discreet.jobs.tables.table_facts import NO_TABLE, TableFacts


@dataclass(frozen=True, slots=True)
class CommandLine:
    """`recipe`: a recipe by name or file, a table or a folder of images, if one is named. `data`: the path of a
    recipe's data set. `out`: the folder to publish to. `settings`: those of `--set`, `overrides`: fields of the recipe
    that have options of their own. `options`: about a table. `sites`: at how many sites it lies, if at several."""

    recipe: str | None = None
    data: Path | None = None
    out: Path | None = None
    settings: Sequence[str] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: TableFacts = NO_TABLE
    about: About = field(default_factory=About)
    sites: int | None = None

    @property
    def name(self) -> str:
        """The recipe, table or folder that is named, or the digits."""
        return self.recipe or "digits"
