"""The purpose of a model in words: its title, its target and its columns, from the schema in model.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.certificate.model_spec import ModelSpec

_MOST_NAMED = 6
_NAMES = ("unit", "row_id")
"""Fields that name a column of people or rows, which no model sees."""

_SEEN_ALONE = ("image", "text")
"""Types of a column that a model sees although it may name the rows, as paths do."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """`target`: the predicted column; None if model.json does not tell. `columns`: names and declared values of the
    features."""

    title: str
    target: str | None
    columns: tuple[tuple[str, str], ...]


def purpose(spec: ModelSpec) -> Purpose:
    """The purpose of the model in `spec`; an invalid schema is left out."""
    given = None if spec.about is None else spec.about.title
    schema = _schema(spec)
    targets, columns = _parts(schema)
    apart = {*targets, *(schema[field] for field in _NAMES if schema.get(field) not in (None, "row"))}
    target = ", ".join(targets) or None
    title = "A neural network trained with differential privacy" if target is None else f"A private model of {target}"
    described = tuple(
        (name, " ".join(_words(column)))
        for name, column in columns.items()
        if column.get("type") in _SEEN_ALONE or (column.get("type") != "ignore" and name not in apart)
    )
    return Purpose(given or title, target, described)


def targets_of(spec: ModelSpec) -> dict[str, str]:
    """The predicted columns of the model in `spec`, with the type of each."""
    targets, columns = _parts(_schema(spec))
    return {name: str(columns.get(name, {}).get("type", "")) for name in targets}


def _schema(spec: ModelSpec) -> dict[str, Any]:
    schema = {} if spec.table is None else spec.table.get("schema")
    return schema if isinstance(schema, dict) else {}


def _parts(schema: Mapping[str, Any]) -> tuple[list[str], dict[str, dict[str, Any]]]:
    """Targets and columns of a schema."""
    target, columns = schema.get("target"), schema.get("columns")
    targets = [str(name) for name in (target if isinstance(target, list) else [target]) if name is not None]
    known = columns.items() if isinstance(columns, dict) else ()
    return targets, {str(name): column for name, column in known if isinstance(column, dict)}


def _words(column: Mapping[str, Any]) -> Iterator[str]:
    yield str(column.get("type", "value"))
    low, high, names = column.get("low"), column.get("high"), column.get("categories")
    if low is not None and high is not None:
        yield f"from {_shown(low)} to {_shown(high)}"
    elif column.get("buy") is not None:
        yield "whose values were bought"
    if isinstance(names, list) and names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        yield f"of {', '.join(map(str, names[:_MOST_NAMED]))}{more}"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
