"""The files of a published folder: their names, reading them, and whether they are the ones that were published."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any

from discreet.core.errors import InputError
from discreet.publication.canonical import strict_json
from discreet.publication.json_schema import fault
from discreet.publication.model_spec import ModelSpec

MODEL = "model.safetensors"
CERTIFICATE = "certificate.json"

FORMAT = "discreet-certificate/1"
SCHEMA = "certificate.schema.json"

HASHED = ("model.json", "plan.yaml", "report.html", "README.md", "verify.py")
"""Files whose hashes the certificate states, beside that of the model."""

FILES = (CERTIFICATE, MODEL, *HASHED)


def read(path: Path) -> bytes:
    """The content of a file; `InputError` if there is none."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; name a folder that `discreet train` made") from None


def read_certificate(folder: Path) -> dict[str, Any]:
    """The content of certificate.json, unchecked."""
    path = folder / CERTIFICATE
    content = read(path)
    try:
        facts = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON; ask for the folder again") from None
    if not isinstance(facts, dict):
        raise InputError(f"{path} is not a certificate; ask for the folder again")
    return facts


def check_certificate(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """The certificate is of a version that is known here, reads the same for everybody, and keeps to its schema."""
    if facts.get("format") != FORMAT:
        return False, f"format {str(facts.get('format'))[:80]!r} is not {FORMAT!r}"
    strict_json(read(folder / CERTIFICATE), CERTIFICATE)
    schema = json.loads(resources.files("discreet.publication").joinpath(SCHEMA).read_text("utf-8"))
    found = fault(facts, schema)
    return found is None, f"format {FORMAT!r}, every field of its schema" if found is None else found


def check_model(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """The model is the certified one."""
    digest = hashlib.sha256(read(folder / MODEL)).hexdigest()
    stated = facts["model"]["sha256"]
    return digest == stated, f"{MODEL} has the certified SHA-256" if digest == stated else (
        f"{MODEL} has SHA-256 {digest}, the certificate says {stated}"
    )


def check_files(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """What people read, and what the model is built by, is what was written with the certificate."""
    stated = facts["files"]
    if set(stated) != set(HASHED):
        return False, f"the certificate must state the hashes of {', '.join(HASHED)}"
    for name in HASHED:
        if hashlib.sha256(read(folder / name)).hexdigest() != stated[name]:
            return False, f"{name} was changed after publishing"
    ModelSpec.from_json(read(folder / "model.json"))
    return True, f"{', '.join(HASHED)} are as published"
