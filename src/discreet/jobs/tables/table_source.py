"""A table or folder of images on the command line: its schema, its path, and the ranges and categories to buy."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from discreet.core.adjacency import Unit
from discreet.core.disk import make_folder, real, real_text, write_durably
from discreet.core.errors import InputError
from discreet.data import Sites, Split
from discreet.data.sets.splits import cut
from discreet.data.tables import (
    Encoder,
    PublicTable,
    Schema,
    buy_columns,
    columns_bought,
    counts_bought,
    is_table,
    load_schema,
    named,
    private_table,
    public_table,
    with_bought,
)
from discreet.data.tables.files.reading import check_columns
from discreet.jobs.evaluation.public_metrics import check_groups
from discreet.jobs.tables.first_look import changes_of, check_there
from discreet.jobs.tables.image_or_text_schema import schema_of_column, schema_of_folder
from discreet.jobs.tables.site_tables import tables_read
from discreet.jobs.tables.table_facts import TableFacts
from discreet.jobs.tables.table_loss import loss_of
from discreet.jobs.tables.table_run import TableReady
from discreet.plan import Plan
from discreet.recipes import Recipe
from discreet.recipes.assemble import Run
from discreet.recipes.recipe_files import recipe_of
from discreet.recipes.sections.fixed_features import seen_as
from discreet.recipes.table_recipe import table_recipe
from discreet.training import answered_first

_BOUGHT = "bought.json"
"""The bought ranges and categories, in the folder of the run."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """A private table, and tables declared public: one to test on, and one whose rows join every step.

    `sites`: at how many sites private tables lie, if at several; `path` then has the number of the site in it.
    """

    path: Path
    test: Path | None
    public: Path | None = None
    sites: int | None = None

    @classmethod
    def remembered(cls, facts: Mapping[str, Any] | None) -> TableSource | None:
        """The source, from `as_dict`."""
        if facts is None:
            return None
        test, public = (None if facts.get(name) is None else Path(facts[name]) for name in ("test", "public"))
        return cls(Path(facts["path"]), test, public, facts.get("sites"))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for the run folder; `remembered` is the inverse."""
        paths = {name: real_text(getattr(self, name)) for name in ("path", "test", "public")}
        return paths if self.sites is None else paths | {"sites": self.sites}

    @property
    def tables(self) -> dict[int, Path]:
        """The private tables that this process reads, by the numbers of their sites."""
        return tables_read(self.path, self.sites)

    def check(self) -> None:
        """Refuse tables that are the same or contain each other: public data must be apart from private data, and test
        rows from rows that are learned from. No row is read."""
        check_there(TableFacts(test=self.test, public=self.public))
        for option, path in self._declared():
            for table in self.tables.values():
                if _same(path, table):
                    raise InputError(f"{option} {path} is the private table itself; give a table that may be public")
                if _nested(path, table):
                    raise InputError(f"{option} {path} and {table} lie in one another; put what may be public apart")
        if self.test is None or self.public is None:
            return
        if _same(self.test, self.public) or _nested(self.test, self.public):
            raise InputError(
                f"--public {self.public} is what --test names: metrics would be of rows that the model has learned "
                "from; give other rows to one of them, or leave one out"
            )

    def _declared(self) -> list[tuple[str, Path]]:
        """The tables that are declared public, with their options."""
        both = [("--test", self.test), ("--public", self.public)]
        return [(option, path) for option, path in both if path is not None]

    def check_columns(self, schema: Schema) -> None:
        """Refuse private tables that are there and have other columns than the schema. No row is read."""
        for table in self.tables.values():
            if table.is_file() and is_table(table.name):
                check_columns(table, schema)

    def check_copies(self) -> None:
        """Refuse a copy of the private table's file under another name. Copies of single rows are not noticed."""
        for option, path in self._declared():
            files = [table for table in self.tables.values() if path.is_file() and table.is_file()]
            if any(filecmp.cmp(path, table, shallow=False) for table in files):
                raise InputError(f"{option} {path} is a copy of the private table; give a table that may be public")

    @contextmanager
    def opened(self, recipe: Recipe, schema: Schema, folder: Path, *, by_name: bool = False) -> Iterator[TableReady]:
        """The table, encoded by a complete schema to a file beside the `folder` of the run, which is gone at the end.

        `by_name`: people are identified by name, which is needed where names decide the part of the data that a row is
        in.
        """
        self.check()
        self.check_copies()
        encoder, sites = Encoder(schema), self.sites
        make_folder(folder.absolute().parent)
        shown, joined = self._read(self.test, recipe, encoder), self._read(self.public, recipe, encoder)
        if shown is not None:
            check_groups(shown.groups)
            shown = shown.mixed() if recipe.validation else shown
        test, validation = cut(None if shown is None else (shown.inputs, shown.targets), recipe.validation)
        by_name = by_name or recipe.holdout is not None
        if by_name:
            _refuse_numbers_that_move(recipe, schema)
        by_name = by_name or sites is not None  # numbers of two tables mean other people
        with ExitStack() as kept:
            seen = seen_as(recipe.features, encoder.shape)
            held = {
                site: kept.enter_context(private_table(path, encoder, folder.parent, seen, whole=sites is None))
                for site, path in self.tables.items()
            }
            units = {site: table.owners(by_name=by_name) for site, table in held.items()}
            ids = {site: named(table.ids) for site, table in held.items()}
            yield TableReady(
                held[0].rows if sites is None else Sites({site: table.rows for site, table in held.items()}, of=sites),
                loss_of(encoder),
                test,
                validation,
                _of_rows(units, sites) if recipe.unit is Unit.USER else None,
                _of_rows(ids, sites) if recipe.unit is Unit.EXAMPLE else None,
                None if joined is None else (joined.inputs, joined.targets),
                encoder=encoder,
                shown=shown,
            )

    def public_split(self, recipe: Recipe, encoder: Encoder, *, all_public: bool) -> Split:
        """The rows declared public, as a data set: those of `--test`, and the table itself with `all_public`."""
        self.check()
        test, joined = self._read(self.test, recipe, encoder), self._read(self.public, recipe, encoder)
        if test is None:
            raise InputError(
                "the debug ladder needs public rows of the table's kind: name a table that may be public with --test, "
                "for example of made-up rows"
            )
        train = self.itself(recipe, encoder) if all_public else test
        public = None if joined is None else (joined.inputs, joined.targets)
        return Split((train.inputs, train.targets), (test.inputs, test.targets), public=public)

    def itself(self, recipe: Recipe, encoder: Encoder) -> PublicTable:
        """The table itself, where it is declared public."""
        return public_table(self.path, encoder, seen_as(recipe.features, encoder.shape))

    def joining(self, recipe: Recipe, schema: Schema) -> PublicTable | None:
        """The encoded public rows that join every step. No private row is read."""
        return self._read(self.public, recipe, Encoder(schema))

    def _read(self, path: Path | None, recipe: Recipe, encoder: Encoder) -> PublicTable | None:
        """A table that is declared public, if there is one."""
        return None if path is None else public_table(path, encoder, seen_as(recipe.features, encoder.shape))

    def buy(self, recipe: Recipe, plan: Plan, model: nn.Module, run: Run) -> Schema:
        """Buy the ranges and categories that the schema leaves open, in the `run` of `plan`; returns the complete
        schema."""
        assert recipe.table is not None
        counts = counts_bought(self.path, recipe.table)  # what is wrong with a column is said before the run is opened
        with answered_first(plan, model, run, noise=recipe.noise) as account:
            found = buy_columns(self.path, recipe.table, counts, account)
        write_durably(run.path / _BOUGHT, (json.dumps(found) + "\n").encode())
        return with_bought(recipe.table, found)


def _refuse_numbers_that_move(recipe: Recipe, schema: Schema) -> None:
    """Refuse rows without names, some of which may be dropped, where names decide the part of the data that a row is
    in: a dropped row changes the numbers of all later ones."""
    if recipe.unit is Unit.EXAMPLE and schema.row_id is None and schema.drops:
        raise InputError(
            f"the part of the data that a row is in would follow from its number, which changes if {schema.drops[0]!r} "
            "drops a row above; say which column names the rows (row_id in the schema), or treat such values otherwise"
        )


def _of_rows(found: Mapping[int, object], sites: int | None) -> object:
    """Identifiers as `Training` takes them: of one table, or by the number of each site; None where rows have none."""
    if sites is None:
        return found[0]
    return None if all(one is None for one in found.values()) else found


def recalled(schema: Schema, folder: Path) -> Schema:
    """The schema with the ranges and categories that an interrupted run has bought."""
    if not columns_bought(schema):
        return schema
    try:
        return with_bought(schema, json.loads((folder / _BOUGHT).read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{folder} was interrupted before it had bought all ranges and categories: those that were charged are "
            "lost; start a new run"
        ) from None


def _same(one: Path, other: Path) -> bool:
    """Whether both are the same file or folder, even through links."""
    try:
        return one.samefile(other)
    except OSError:
        return real(one) == real(other)


def _nested(one: Path, other: Path) -> bool:
    """Whether one is a folder that contains the other."""
    first, second = real(one), real(other)
    return (one.is_dir() and first in second.parents) or (other.is_dir() and second in first.parents)


def check_apart(path: Path, target: Path) -> None:
    """Refuse to write into a folder that is read."""
    if path.is_dir() and real(path) in real(target).parents:
        raise InputError(f"{target} lies in {path}, where the images are; name a folder elsewhere with --out")


def declared_schema(path: Path, options: TableFacts, population: float | None) -> Schema:
    """The schema of the table or folder at `path`, with the changes of the command line. No row is read."""
    changes = changes_of(options, population)
    if options.schema is not None:
        if options.given_in_place:
            raise InputError(f"the schema says what {options.given_in_place[0]} would; change it there")
        return load_schema(options.schema, changes)
    if path.is_dir():
        return schema_of_folder(path, options, changes)
    if options.text is not None or options.image is not None:
        return schema_of_column(path, options, changes)
    if not path.exists():
        raise InputError(f"there is no table {path}, and no --schema; check the path")
    raise InputError(
        "a table needs a schema, which says what its columns are: --schema FILE.yaml; `discreet schema TABLE` "
        "drafts one; or, if a model sees one column of texts or images, --text COLUMN or --image COLUMN"
    )


def recipe_for(
    path: Path, options: TableFacts, settings: Sequence[str], overrides: Mapping[str, Any], *, queries: bool = True
) -> Recipe:
    """The recipe of a table, from its schema, the budget and settings of the command line. `queries`: whether the run
    can answer one before its first step."""
    schema = declared_schema(path, options, overrides.get("population"))
    data = table_recipe(schema, overrides.get("epsilon"), overrides.get("delta"), queries=queries)
    if options.public is not None:
        data["public"] = {}
    rest = {name: value for name, value in overrides.items() if name not in data}
    chosen, center = data["steps"], data.get("center")  # which settings change in place
    recipe = recipe_of(data, "recipe of the table", settings, rest)
    if recipe.center is None and center is not None:  # what else follows from the noise of its steps
        return recipe_for(path, options, settings, overrides, queries=False)
    averaging = recipe.averaging
    if averaging is None or recipe.steps == chosen or any(setting.startswith("averaging") for setting in settings):
        return recipe
    return recipe.model_copy(update={"averaging": replace(averaging, start=recipe.steps // 2)})  # as by default
