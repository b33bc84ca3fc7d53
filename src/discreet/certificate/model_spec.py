"""model.json of a published folder: how to build the model again, and how to prepare its inputs.

It holds names and plain data, so reading it runs nothing. All of it is public, or computed from releases.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from discreet.certificate.canonical import strict_json
from discreet.certificate.described import About, Measured, OfTexts, OnPublicRows, read
from discreet.core.errors import InputError

FORMAT = "discreet-model/1"

_FIELDS = {"format", "data", "inputs", "preprocessing", "model", "module", "outputs", "table"}
_OPTIONAL = {"about", "public_rows", "language", "measured"}
_OUTPUTS = ("classes", "numbers")


@dataclass(frozen=True, slots=True)
class Named:
    """An entry of the library by its name, with JSON-ready arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-ready data."""
        return {"name": self.name, "arguments": dict(self.arguments)}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """`model`: by name, or None for a module of the user's own, whose class is called `module`.

    `inputs`: the shape of one row before `preprocessing`; None if unknown. `preprocessing`: steps in order, each on one
    row by itself. `data`: the library's name of the data set, if it has one. `outputs`: whether the model scores
    `classes` or predicts `numbers`; None if unknown, or of several labels: predictions are what the model returns.
    `table`: the encoding of table rows as inputs, if the model was trained on a table (`data.tables.Encoder`). `about`,
    `public_rows` and `measured`: for people. `language`: the task of a language model, and the texts that it takes.
    """

    model: Named | None = None
    module: str | None = None
    inputs: tuple[int, ...] | None = None
    preprocessing: tuple[Named, ...] = ()
    data: str | None = None
    outputs: str | None = None
    table: Mapping[str, Any] | None = None
    about: About | None = None
    public_rows: OnPublicRows | None = None
    language: OfTexts | None = None
    measured: Measured | None = None

    def to_json(self) -> str:
        """The content of model.json."""
        facts: dict[str, Any] = {
            "format": FORMAT,
            "data": self.data,
            "inputs": None if self.inputs is None else list(self.inputs),
            "preprocessing": [step.as_dict() for step in self.preprocessing],
            "model": None if self.model is None else self.model.as_dict(),
            "module": self.module,
            "outputs": self.outputs,
            "table": None if self.table is None else dict(self.table),
        }
        parts = {"about": self.about, "public_rows": self.public_rows, "language": self.language}
        for name, part in {**parts, "measured": self.measured}.items():
            if part is not None:
                facts[name] = part.model_dump(mode="json", exclude_defaults=True)
        return json.dumps(facts, indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> ModelSpec:
        """The model that `to_json` wrote; anything else is an `InputError` that names the field."""
        facts = strict_json(text, "model.json")
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise InputError(f"model.json has not the format {FORMAT!r}; it comes from another version of discreet")
        if set(facts) - _OPTIONAL != _FIELDS:
            raise InputError(f"model.json needs exactly the fields {sorted(_FIELDS)}, got {sorted(facts)}")
        inputs, steps, model = facts["inputs"], facts["preprocessing"], facts["model"]
        if inputs is not None and not (isinstance(inputs, list) and all(type(n) is int and n > 0 for n in inputs)):
            raise InputError("model.json: inputs must be a list of sizes, or null")
        if not isinstance(steps, list):
            raise InputError("model.json: preprocessing must be a list of steps")
        if facts["table"] is not None and not isinstance(facts["table"], dict):
            raise InputError("model.json: table must be an encoding of tables, or null")
        if facts["outputs"] not in (None, *_OUTPUTS):
            raise InputError(
                f"model.json: outputs must be one of {', '.join(_OUTPUTS)}, or null (None): predictions are then what "
                "the model returns, as of several labels"
            )
        return cls(
            model=None if model is None else _named(model, "model"),
            module=_text(facts["module"], "module"),
            inputs=None if inputs is None else tuple(inputs),
            preprocessing=tuple(_named(step, "preprocessing") for step in steps),
            data=_text(facts["data"], "data"),
            outputs=facts["outputs"],
            table=facts["table"],
            about=read(About, facts.get("about"), "about"),
            public_rows=read(OnPublicRows, facts.get("public_rows"), "public_rows"),
            language=read(OfTexts, facts.get("language"), "language"),
            measured=read(Measured, facts.get("measured"), "measured"),
        )


def of_module(module: object) -> ModelSpec:
    """The spec of a user's own module: the name of its class, for people; no code."""
    kind = type(module)
    return ModelSpec(module=f"{kind.__module__}.{kind.__qualname__}")


def _named(data: object, where: str) -> Named:
    match data:
        case {"name": str(name), "arguments": dict(arguments), **rest} if not rest:
            return Named(name, arguments)
    raise InputError(f"model.json: {where} needs a name and arguments, and nothing else")


def _text(value: object, where: str) -> str | None:
    if value is not None and not (isinstance(value, str) and value.isprintable()):
        raise InputError(f"model.json: {where} must be printable text or null")
    return value
