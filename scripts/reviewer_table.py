"""Write the fields and kinds of certificates, as their schema has them, into verify.py, between its two markers.

    python scripts/reviewer_table.py

verify.py stays one file that needs NumPy alone: it cannot read the schema, so it holds a table that is made from it.
A test compares the two.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from discreet.certificate.files import SCHEMA

FILE = Path(__file__).parents[1] / "src" / "discreet" / "verification" / "standalone" / "verify.py"
BEGIN = "# The table below is written by scripts/reviewer_table.py, from the schema of certificates.\n"
END = "# End of the table.\n"

_LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
_PLAIN = {"null": "null", "boolean": "truth", "integer": "whole", "number": "number", "string": "text"}
_SILENT = {"description", "$schema", "$defs", "title"}

Schema = Mapping[str, Any]


class Table:
    """Lines of the table: `name: field kind; field kind` for an object, `name = kind | kind` for a choice."""

    def __init__(self, schema: Schema) -> None:
        self.lines: dict[str, str] = {}
        self._object("certificate", {name: part for name, part in schema.items() if name not in _SILENT})
        for name, part in schema["$defs"].items():
            if "properties" in part:
                self._object(name, part)
            else:
                self.lines[name] = f"= {self._kind(part, name)}"

    def text(self) -> str:
        """One line each, or more where it is long; those that follow are indented."""
        return "\n".join(
            textwrap.fill(
                f"{name}{' ' if line.startswith('=') else ': '}{line}",
                118,
                subsequent_indent="  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            for name, line in sorted(self.lines.items(), key=lambda pair: (pair[0] != "certificate", pair[0].lower()))
        )

    def _object(self, name: str, schema: Schema) -> str:
        """Add a line for an object whose fields are named; what this cannot say is an error, never left out."""
        _only(schema, {"type", "properties", "required", "additionalProperties"})
        parts = [
            f"{field}{'' if field in schema['required'] else '?'} {self._kind(part, f'{name}.{field}')}"
            for field, part in schema["properties"].items()
        ]
        others = schema["additionalProperties"]
        self.lines[name] = "; ".join([*parts, *([] if others is False else [f"* {self._kind(others, name)}"])])
        return name

    def _kind(self, schema: Schema, name: str) -> str:
        """The kind of a value in words; `name` is for an object that has none."""
        name = name.removeprefix("certificate.")
        if not set(schema) - _SILENT:
            return "any"
        if "$ref" in schema:
            _only(schema, {"$ref"})
            return str(schema["$ref"]).removeprefix("#/$defs/")
        if "const" in schema or "enum" in schema:
            _only(schema, {"const", "enum", "type"})
            values = schema.get("enum", [schema.get("const")])
            if not all(isinstance(value, str) and re.fullmatch("[^, ;|]+", value) for value in values):
                raise ValueError(f"{name}: the values {values} cannot be written into the table")
            return "=" + ",".join(values)
        if "anyOf" in schema or "oneOf" in schema:
            _only(schema, {"anyOf", "oneOf"})
            return " | ".join(self._kind(one, _variant(name, one)) for one in schema.get("anyOf", schema.get("oneOf")))
        if schema["type"] == "array":
            _only(schema, {"type", "items", "minItems"})
            inner = self._kind(schema["items"], f"{name}.each")
            if " | " in inner:
                self.lines[f"{name}.each"], inner = f"= {inner}", f"{name}.each"
            return f"{_some(schema, 'minItems')}list of {inner}"
        if schema["type"] == "object":
            if "properties" in schema:
                return self._object(name, schema)
            _only(schema, {"type", "additionalProperties", "minProperties"})
            inner = self._kind(schema.get("additionalProperties", {}), f"{name}.each")
            return f"{_some(schema, 'minProperties')}names to {inner}"
        return self._plain(schema)

    def _plain(self, schema: Schema) -> str:
        if schema["type"] == "string":
            _only(schema, {"type", "pattern", "minLength"})
            return f"/{schema['pattern'][1:-1]}/" if "pattern" in schema else f"{_some(schema, 'minLength')}text"
        _only(schema, {"type", *_LIMITS})
        limits = [f"{sign}{schema[name]!r}" for name, sign in _LIMITS.items() if name in schema]
        return " ".join([_PLAIN[schema["type"]], *limits])


def _only(schema: Schema, known: set[str]) -> None:
    unknown = set(schema) - known - _SILENT
    if unknown:
        raise ValueError(f"the table has no words for {sorted(unknown)} in {schema}")


def _some(schema: Schema, name: str) -> str:
    """Whether something may be empty; other least lengths have no words."""
    if schema.get(name, 0) not in (0, 1):
        raise ValueError(f"the table has no words for {name} {schema[name]}")
    return "some " if schema.get(name) else ""


def _variant(name: str, schema: Schema) -> str:
    """The name of an object that is one of several: by the field that tells them apart."""
    named = [part["const"] for part in schema.get("properties", {}).values() if "const" in part]
    return f"{name}.{named[0]}" if named else name


def written() -> str:
    """verify.py with the table as it should be."""
    schema = json.loads(resources.files("discreet.certificate").joinpath(SCHEMA).read_text("utf-8"))
    before, rest = FILE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    return f'{before}{BEGIN}TABLE = """\n{Table(schema).text()}\n"""\n{END}{after}'


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
