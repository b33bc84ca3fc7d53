"""Errors of pydantic, said in one line that names the field."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from discreet.core.errors import InputError

M = TypeVar("M", bound=BaseModel)


class Frozen(BaseModel):
    """Base of everything read from files: immutable, and refusing fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)


def validate(model: type[M], data: object, where: str) -> M:
    """`data` as a `model`, or an `InputError` that names `where`, the field and the fault."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {explain(error, model)}") from None


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """The first fault of a validation error in one line."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"unknown key {field!r}; known: {', '.join(model.model_fields)}"
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message
    return f"{field}: {message[0].lower()}{message[1:]}, got {first['input']!r:.80}"


def fingerprint(model: BaseModel) -> str:
    """SHA-256 of the canonical JSON of a plan."""
    canonical = json.dumps(model.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def read_yaml(path: Path) -> Any:
    """The content of a YAML file; unreadable or malformed files are an `InputError`."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; check the path") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
