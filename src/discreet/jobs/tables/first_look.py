"""A first look at what the command line asks for, before PyTorch is loaded: files that are not there, and columns that
a table and its schema do not share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discreet.core.disk import check_target, real
from discreet.core.errors import InputError
from discreet.core.yaml_files import read_yaml
from discreet.data.tables.files.reading import blocks, is_table, is_text
from discreet.data.tables.problems import Problems
from discreet.data.tables.schema import load_schema
from discreet.jobs.command_line import CommandLine
from discreet.jobs.run_folders import named
from discreet.jobs.tables.site_tables import check_sites, name_of, tables_read
from discreet.jobs.tables.table_facts import TableFacts
from discreet.recipes.shipped import recipe_names

_RECIPE = (".yaml", ".yml")


def first_look(line: CommandLine) -> None:
    """Refuse, before PyTorch is loaded, some of what would be refused after it. No row is kept."""
    name, options, sites = line.name, line.options, line.sites
    check_there(options)
    if is_source(name):
        check_sites(Path(name), sites, options)
        for table in tables_read(Path(name), sites).values() if is_table(name) else ():
            _check_columns(table, options, line.overrides.get("population"))
    else:
        check_name(name)
        if name.endswith(_RECIPE):
            read_yaml(Path(name))
    check_target(target_of(line))


def is_source(name: str) -> bool:
    """Whether `name` is a table or a folder of images, and not a recipe. `InputError` for a missing folder."""
    if name.endswith("/") and not Path(name).is_dir():
        raise InputError(f"there is no folder {name}; check the path")
    return is_table(name) or (name not in recipe_names() and Path(name).is_dir())


def check_there(options: TableFacts) -> None:
    """Refuse tables declared public that are not there."""
    for option, path in (("--test", options.test), ("--public", options.public)):
        if path is not None and not path.exists():
            raise InputError(f"{option}: there is no file or folder {path}; check the path")


def check_name(name: str) -> None:
    """Refuse what is no recipe, of a name that is no source of rows."""
    if name not in recipe_names() and not name.endswith(_RECIPE):
        raise InputError(
            f"{name} is no recipe, no table (.csv, .parquet, .jsonl) and no folder of images that is there; check the "
            f"path, or name a .yaml file or one of {', '.join(recipe_names())}"
        )


def target_of(line: CommandLine) -> Path:
    """The folder to publish to."""
    return named(line.out or Path(f"{name_of(real(Path(line.name)))}-private"))


def changes_of(options: TableFacts, population: float | None) -> dict[str, Any]:
    """The fields of a schema that the command line sets anew."""
    given: dict[str, Any] = {"unit": options.unit, "population": population}
    if options.target is not None:
        given["target"] = [name.strip() for name in options.target.split(",")]
    return {name: value for name, value in given.items() if value is not None}


def _check_columns(table: Path, options: TableFacts, population: float | None) -> None:
    """Read the schema and the first block of the table, where one column is not all that a model sees."""
    if options.schema is None or options.given_in_place:
        return
    if not table.exists():  # before what is wrong with a schema that may be meant for another table
        raise InputError(f"there is no table {table}; check the path")
    schema = load_schema(options.schema, changes_of(options, population))
    if schema.wide is None and (is_text(table) or table.suffix in (".parquet", ".pq")):
        next(blocks(table, schema, schema.read, Problems(table)), None)
