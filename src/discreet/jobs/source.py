"""The work of a command: a recipe by name, or a table or folder of images with the recipe that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from discreet.core.disk import check_target
from discreet.core.errors import InputError
from discreet.data.tables import refuse_bought
from discreet.jobs.command_line import CommandLine
from discreet.jobs.tables.first_look import check_name, is_source, target_of
from discreet.jobs.tables.site_tables import MARK, check_sites
from discreet.jobs.tables.table_source import TableSource, check_apart, recipe_for
from discreet.recipes import Recipe, load_recipe


@dataclass(frozen=True, slots=True)
class Work:
    """A recipe and the path of its data. `table`: the source of a table's rows, if it is for a table."""

    recipe: Recipe
    data: Path | None
    table: TableSource | None = None

    @classmethod
    def of(cls, line: CommandLine, *, queries: bool = True) -> Work:
        """The work that a command line describes. Nothing of private data is read but the names of sub-folders, where
        these are declared to be the classes. `queries`: whether runs can answer one before their first step."""
        name, options, sites = line.name, line.options, line.sites
        if is_source(name):
            if line.data is not None:
                raise InputError(f"{name} is the table itself; leave out --data")
            table = TableSource(Path(name), options.test, options.public, sites)
            check_sites(table.path, sites, options)
            table.check()
            recipe = recipe_for(table.path, options, line.settings, line.overrides, queries=queries)
            if sites is not None and recipe.table is not None:
                refuse_bought(recipe.table, "would be bought, which takes all rows in one place")
            if recipe.validation and options.test is None:
                raise InputError("validation is a share of the rows that --test declares public; name such a table")
            if recipe.public is not None and options.public is None:
                raise InputError("public is about the rows that --public declares public; name such a table")
            return cls(recipe, None, table)
        if sites is not None:
            raise InputError(f"--sites goes with tables, named like patients-{MARK}.csv, not with {name}; leave it out")
        if options.public is not None:
            raise InputError(
                f"--public goes with a table or a folder of images; of {name}, a share of the public test rows can "
                "join the steps: --set public.share=20%"
            )
        if options.given:
            raise InputError(
                f"{options.given[0]} and its like go with a table (.csv, .parquet) or a folder of images, not with "
                f"{name}; leave it out, or name the table"
            )
        check_name(name)
        return cls(load_recipe(name, line.settings, line.overrides), line.data)

    def check_columns(self) -> None:
        """Refuse a table that is there and has other columns than its schema. No row is read."""
        if self.table is not None and self.recipe.table is not None:
            self.table.check_columns(self.recipe.table)

    def target(self, line: CommandLine) -> Path:
        """The folder to publish to. `InputError` if it exists, or lies in a folder that is read."""
        target = target_of(line)
        check_target(target)
        if self.table is not None:
            check_apart(self.table.path, target)
        return target
