"""What `discreet train TABLE` was asked to do with a table: its schema, its path, and ranges that are bought first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from discreet.cli.ready import TableReady, of_table
from discreet.core.errors import InputError
from discreet.data.tables import (
    Encoder,
    PublicTable,
    Schema,
    buy_ranges,
    check_groups,
    columns_bought,
    load_schema,
    provisional,
    public_table,
    with_ranges,
)
from discreet.plan import Plan
from discreet.recipes import Recipe
from discreet.recipes.load import recipe_of
from discreet.recipes.tables import table_recipe
from discreet.training import answered_first

_RANGES = "ranges.json"
"""What was bought, in the folder of the run."""


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of the command line that are about tables."""

    schema: Path | None = None
    target: str | None = None
    unit: str | None = None
    test: Path | None = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return any(option is not None for option in (self.schema, self.target, self.unit, self.test))

    def declared(self, population: float | None) -> Schema:
        """The schema, with what the command line says instead."""
        if self.schema is None:
            raise InputError(
                "a table needs a schema, which says what its columns are: --schema FILE.yaml; `discreet schema TABLE` "
                "drafts one"
            )
        changes: dict[str, Any] = {"unit": self.unit, "population": population}
        if self.target is not None:
            changes["target"] = [name.strip() for name in self.target.split(",")]
        return load_schema(self.schema, {name: value for name, value in changes.items() if value is not None})


@dataclass(frozen=True, slots=True)
class TableSource:
    """A private table, and a table that is declared public."""

    path: Path
    test: Path | None

    @classmethod
    def remembered(cls, facts: Mapping[str, Any] | None) -> TableSource | None:
        """What `as_dict` wrote."""
        if facts is None:
            return None
        return cls(Path(facts["path"]), None if facts["test"] is None else Path(facts["test"]))

    def as_dict(self) -> dict[str, Any]:
        """For the run folder."""
        return {"path": str(self.path.resolve()), "test": None if self.test is None else str(self.test.resolve())}

    @contextmanager
    def opened(self, recipe: Recipe, schema: Schema, folder: Path) -> Iterator[TableReady]:
        """The table, encoded by a schema whose ranges are known, beside the `folder` of the run."""
        encoder = Encoder(schema)
        folder.parent.mkdir(parents=True, exist_ok=True)
        public = self._public(encoder)
        with of_table(recipe, self.path, encoder, public, folder.parent) as ready:
            yield ready

    def _public(self, encoder: Encoder) -> PublicTable | None:
        if self.test is None:
            return None
        if self.test.resolve() == self.path.resolve():
            raise InputError(f"--test {self.test} is the private table itself; give a table that may be public")
        public = public_table(self.test, encoder)
        check_groups(public.groups)
        return public

    def buy(
        self, recipe: Recipe, plan: Plan, model: nn.Module, folder: Path, ledger: str | None, dataset_id: str
    ) -> Schema:
        """Buy the ranges that the schema does not declare, in the run of `plan`, and return the whole schema."""
        assert recipe.table is not None
        with answered_first(
            plan, model, run_dir=folder, ledger=ledger, dataset_id=dataset_id, noise=recipe.noise
        ) as account:
            ranges = buy_ranges(self.path, recipe.table, account)
        (folder / _RANGES).write_text(json.dumps(ranges) + "\n")
        return with_ranges(recipe.table, ranges)


def recalled(schema: Schema, folder: Path) -> Schema:
    """The schema with the ranges that a run has bought before it was interrupted."""
    if not columns_bought(schema):
        return schema
    try:
        return with_ranges(schema, json.loads((folder / _RANGES).read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{folder} was interrupted while it bought ranges: they are charged and lost; start a new run"
        ) from None


def unbought(schema: Schema) -> Schema:
    """The schema with the ranges in which others are looked for, to check a table before anything is charged."""
    return provisional(schema)


def recipe_for(options: TableOptions, settings: Sequence[str], overrides: Mapping[str, Any]) -> Recipe:
    """The recipe of a table, from its schema, the budget and settings of the command line."""
    schema = options.declared(overrides.get("population"))
    data = table_recipe(schema, overrides.get("epsilon"), overrides.get("delta"))
    rest = {name: value for name, value in overrides.items() if name not in data}
    return recipe_of(data, "recipe of the table", settings, rest)
