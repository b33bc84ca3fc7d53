"""`Schema`: what is declared of a table before it is read. Everything in it is public and is published."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from discreet.core.errors import InputError
from discreet.core.yaml_files import read_yaml
from discreet.data.tables.categories import Boolean, Category, Text, formula_like
from discreet.data.tables.columns import FILL_IN, Column, Date, Ignore, Number
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.values import Marks, category_of
from discreet.data.tables.wide import FreeText, Image, Wide
from discreet.plan.pydantic_base import Frozen, validate

ROW = "row"
"""The unit of a table in which every person has one row at most."""

_SEVERAL = (
    "several targets are all labels that are each true or false, or all numbers or dates; declare {!r} as {}, or leave "
    "it out"
)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


class Schema(Frozen):
    """Columns with their ranges and categories, and the unit of privacy.

    - `columns`: by name; where the CSV file has no header (`csv: {header: false}`), in the order of the file. A column
      of the table that is not named here is refused, or ignored with `others: ignore`.
    - `csv`: how a CSV file is written. `missing`: texts that stand for a missing value.
    - `target`: the column to predict, or several that are all boolean (labels) or all numbers.
    - `unit`: "row" if every person has one row at most, or the column that names the person of each row; then a step
    uses at most `rows_per_unit` rows of a person. `population`: the declared public number of units.
    - `row_id`: a column that names each row, for `--holdout`.
    - `subgroups`: columns by whose categories metrics on the public test table are shown as well.
    """

    columns: Annotated[Mapping[str, Column], Field(min_length=1)]
    csv: CsvFormat = CsvFormat()
    missing: tuple[Text, ...] = ("",)
    others: str = Field("refuse", pattern="^(refuse|ignore)$")
    target: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    unit: str | None = None
    rows_per_unit: Annotated[int, Field(ge=1)] = 1
    population: Annotated[float, Field(gt=0)] | None = None
    row_id: str | None = None
    subgroups: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Schema:
        wrong = [name for name in self.columns if formula_like(name)]
        if wrong:
            raise ValueError(f"the column {wrong[0]!r} looks like a formula; rename it")
        for name in self.subgroups:
            if not isinstance(self.columns.get(name), Category | Boolean):
                raise ValueError(f"subgroups: {name!r} is not a category or boolean column of the schema")
        for name in (*self.subgroups, self.row_id or "", self.unit_column or ""):
            column = self.columns.get(name)
            if isinstance(column, Category) and column.buy is not None:
                raise ValueError(
                    f"the categories of {name!r} cannot be bought: subgroups, and names of rows and people, are known "
                    "beforehand; list them"
                )
        for name, column in self.columns.items():
            if isinstance(column, Category):
                self._check_numbers(name, column)
        for name in self.target:
            self.check_target(name)
        self._check_wide()
        return self

    def _check_numbers(self, name: str, column: Category) -> None:
        try:
            category_of(column, self.marks)
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from None

    def _check_wide(self) -> None:
        wide = [name for name, column in self.columns.items() if isinstance(column, FreeText | Image)]
        apart = {*wide[:1], *self.target, *self.subgroups, self.unit_column, self.row_id}
        beside = [name for name in self._not_ignored if name not in apart]
        if wide and beside:
            raise ValueError(
                f"the model sees {wide[0]!r} and no other column beside it; say type: ignore for it, or for all "
                f"others: {_few(beside)}"
            )

    def check_target(self, name: str) -> None:
        """Refuse a target that is not declared, or cannot be predicted."""
        if name not in self.columns:
            raise ValueError(f"the target {name!r} is not a column of the schema; it has {_few(self._not_ignored)}")
        column = self.columns[name]
        if name in (self.unit_column, self.row_id):
            what = "says whose a row is" if name == self.unit_column else "names the rows"
            raise ValueError(f"the target {name!r} {what}, and cannot be predicted; name another")
        if isinstance(column, Ignore):
            raise ValueError(f"the target {name!r} is ignored; declare its type")
        if isinstance(column, FreeText | Image):
            raise ValueError(f"the target {name!r} is of type {column.type}, which cannot be predicted")
        if isinstance(column, Number) and column.buy is not None:
            raise ValueError(f"the range of the target {name!r} cannot be bought; give low and high")
        if isinstance(column, Category) and column.buy is not None:
            raise ValueError(f"the categories of the target {name!r} cannot be bought: they are its classes; list them")
        if isinstance(column, Category | Boolean):
            lost = [word for word in column.categories or () if word in self.missing]
            if lost:
                raise ValueError(
                    f"the target {name!r} has the class {lost[0]!r}, which `missing` has among the words for no value; "
                    "take it out of one of them"
                )
        numbers = isinstance(self.columns.get(self.target[0]), Number | Date) if self.target else False
        if len(self.target) > 1 and not isinstance(column, (Number | Date) if numbers else Boolean):
            raise ValueError(_SEVERAL.format(name, "number" if numbers else "boolean"))

    @property
    def marks(self) -> Marks:
        """How values are written."""
        return Marks(self.missing, self.csv.decimal, self.csv.thousands, self.csv.trim)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns to read: all that are not ignored, and those of unit and row_id."""
        named = self._not_ignored
        extra = [name for name in (self.unit_column, self.row_id) if name is not None and name not in named]
        return (*named, *extra)

    @property
    def _not_ignored(self) -> list[str]:
        return [name for name, column in self.columns.items() if not isinstance(column, Ignore)]

    @property
    def drops(self) -> tuple[str, ...]:
        """Columns whose values may drop a row."""
        ways = ("missing", "outside", "unseen", "unreadable")
        return tuple(name for name, one in self.columns.items() if "drop" in (getattr(one, way, None) for way in ways))

    @property
    def unit_column(self) -> str | None:
        """The column that names the person of each row, if a person may have several."""
        return None if self.unit in (None, ROW) else self.unit

    @property
    def wide(self) -> tuple[str, Wide] | None:
        """The image or text column that a model sees, if any: its name and its declaration."""
        found = ((name, column) for name, column in self.columns.items() if isinstance(column, FreeText | Image))
        return next(found, None)

    @property
    def features(self) -> tuple[str, ...]:
        """The columns that a model sees, in order."""
        if self.wide is not None:
            return (self.wide[0],)
        apart = {*self.target, self.unit_column, self.row_id}
        return tuple(name for name in self._not_ignored if name not in apart)

    def changed(self, **changes: Any) -> Schema:
        """The schema with some of its fields set anew, checked again."""
        return validate(Schema, self.model_dump(mode="json") | changes, "schema")


def load_schema(path: Path, changes: Mapping[str, Any] | None = None) -> Schema:
    """Read a schema from YAML, some of its fields replaced; `InputError` names the file, the field and the fault."""
    data = read_yaml(path)
    if not isinstance(data, dict) or not isinstance(data.get("columns"), dict):
        raise InputError(
            f"{path}: a schema has a mapping `columns` of names to types; `discreet schema TABLE` drafts one"
        )
    data |= changes or {}
    data["columns"] = _without_names(data)
    left = list(_left(data))
    if left:
        raise InputError(f"{path}: fill in {_few(left)}, from public knowledge and not by looking at the table")
    return validate(Schema, data, str(path))


def _without_names(data: Mapping[str, Any]) -> dict[str, Any]:
    """The columns; what a draft still asks of the column that names people or rows is not needed: no model sees it."""
    found: dict[str, Any] = dict(data["columns"])
    for name in (data.get("unit"), data.get("row_id")):
        column = found.get(name) if isinstance(name, str) else None
        if isinstance(column, dict) and FILL_IN in column.values():
            found[str(name)] = {"type": "ignore"}
    return found


def _left(data: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """The names of fields that are still FILL_IN."""
    for name, value in data.items():
        if value == FILL_IN:
            yield f"{within}{name}"
        elif isinstance(value, dict):
            yield from _left(value, f"{within}{name}.")


def _few(names: list[str]) -> str:
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
