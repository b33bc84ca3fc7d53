"""Answers of the data's holder: what a privacy statement needs and no certificate can know.

They are the holder's own words. Nothing checks them, and the pages that quote them say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from discreet.core.errors import InputError
from discreet.core.yaml_files import read_yaml

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000)]

_Curators = Literal["Government", "Industry", "Nonprofit"]
_Sectors = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance"]
_Sources = Literal[
    "Peer-reviewed publication",
    "Formal publication by the deploying organization",
    "Authorized organizational attestation",
    "Other public source",
]
CURATORS, SECTORS, SOURCES = map(get_args, (_Curators, _Sectors, _Sources))
"""The kinds of curators, sectors and sources that the registry of OpenDP knows (its schema of September 2026)."""


class _Answers(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_max_length=4000)


def _asked(question: str) -> Any:
    return Field(default=None, description=question)


class Curator(_Answers):
    """Who publishes the model."""

    name: Words | None = _asked("The organisation that publishes the model.")
    kind: _Curators | None = _asked(f"One of {', '.join(CURATORS)}.")


class Source(_Answers):
    """A document about the deployment."""

    title: Words
    url: Words | None = None
    kind: _Sources = "Other public source"


class Holder(_Answers):
    """The answers, each None until it is given."""

    name: Words | None = _asked("The name of the model, as others shall call it.")
    description: Words | None = _asked("What the model is, in one or two sentences.")
    intended_use: Words | None = _asked("What it is published for.")
    curator: Curator = Field(default=Curator(), description="Who publishes it.")
    region: Words | None = _asked("The region that the data describes, or whose law applies.")
    sector: _Sectors | None = _asked(f"One of {', '.join(SECTORS)}.")
    published: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")] | None = _asked(
        "The day of publication, as 'YYYY-MM-DD'."
    )
    authors: tuple[Words, ...] = Field(default=(), description="Who filled this in: a list of names.")
    unit: Words | None = _asked("Who or what one unit is, and how often one person can be in the data.")
    epsilon: Words | None = _asked("Why this epsilon, and who decided on it.")
    other_releases: Words | None = _asked("What else was or will be released from the same data. Budgets add up.")
    settings: Words | None = _asked("How settings were chosen, and on which data. Choices on private rows cost, too.")
    accuracy: Words | None = _asked("How accurate the model must be for its use, and whether it is.")
    bias: Words | None = _asked("For whom it works less well. Clipping and noise weigh most on small groups.")
    side_channels: Words | None = _asked("Who could see times, logs, memory or traffic of the training.")
    trust: Words | None = _asked("Who sees the raw data, who runs the training, and why they are trusted.")
    collection: Words | None = _asked("How the data was collected, on what legal ground, and what people were told.")
    protection: Words | None = _asked("How the raw data is kept, by whom, and when it will be deleted.")
    sources: tuple[Source, ...] = Field(default=(), description="Documents: a list of {title: ..., url: ...}.")


def read_answers(path: Path) -> Holder:
    """The answers in a YAML file; unknown names and wrong kinds are an `InputError` that names the field."""
    given = read_yaml(path)
    if given is None:
        return Holder()
    if not isinstance(given, dict):
        raise InputError(f"{path}: answers are a mapping of names to texts; --questions writes one to fill in")
    try:
        return Holder.model_validate(_without_blanks(given))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        known = ", ".join(Holder.model_fields)
        said = f"it is no question; there are: {known}" if first["type"] == "extra_forbidden" else _fault(first)
        raise InputError(f"{path}: {where}: {said}") from None


def _fault(first: Mapping[str, Any]) -> str:
    """The error message for an invalid answer, in terms of YAML, followed by the answer if there is one."""
    said = first["msg"].replace("a valid tuple", "a list").replace("a valid string", "a text")
    if first["type"] == "string_pattern_mismatch":
        said = "Input should be a day, as 2026-11-28"
    return said if first["type"] == "missing" else f"{said}, got {first['input']!r:.80}"


def questions() -> str:
    """The questions as a YAML file to fill in: a comment and an empty field for each."""
    return "# Leave a field empty where you have no answer; the page then says so.\n\n" + "\n".join(_fields(Holder, ""))


def unanswered(holder: Holder) -> list[str]:
    """The names of the questions without an answer."""
    return [name for name in Holder.model_fields if getattr(holder, name) in (None, (), Curator())]


def _fields(of: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in of.model_fields.items():
        if field.annotation is Curator:
            yield f"{indent}{name}:"
            yield from _fields(Curator, indent + "  ")
            continue
        yield f"{indent}# {field.description}"
        yield f"{indent}{name}:\n"


def _without_blanks(given: dict[Any, Any]) -> dict[Any, Any]:
    """The same without empty fields, which are no answers, and with days as texts: YAML reads 2026-11-28 as a day."""
    inner = {
        name: _without_blanks(value) if isinstance(value, dict) else str(value) if type(value) is date else value
        for name, value in given.items()
    }
    return {name: value for name, value in inner.items() if value not in (None, "", {}, [])}
