"""The files of a published folder: their names, how to read them, and checks that they are the published ones.

A folder may come from a stranger. So only plain files of bounded size are read, and nothing else is opened: a link
leads elsewhere, a pipe never ends, and opening a device may have effects.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from discreet.certificate.adapter_files import BESIDE, adapter_fault
from discreet.certificate.canonical import check_values, strict_json, texts
from discreet.certificate.equal_blocks import written_out
from discreet.certificate.json_schema import fault
from discreet.certificate.model_spec import ModelSpec
from discreet.certificate.tensorfile import tensor_digests
from discreet.core.errors import InputError, typed
from discreet.core.imports.extras import versions

MODEL = "model.safetensors"
CERTIFICATE = "certificate.json"
RELEASED = "released.safetensors"

FORMATS = ("discreet-certificate/1", "discreet-certificate/2")
"""The versions that are read; the last is written. In 2, equal blocks may be one entry (`equal_blocks`)."""
FORMAT = FORMATS[-1]
SCHEMA = "certificate.schema.json"

HASHED = ("model.json", "plan.yaml", "report.html", "README.md", "verify.py")
"""Files whose hashes the certificate states, beside the model's."""

FILES = (CERTIFICATE, MODEL, *HASHED)


def hashed(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The files whose hashes a certificate states: `HASHED`, and those of adapters if it names a base model."""
    return (*HASHED, *(BESIDE if "base" in facts else ()))


LARGEST, LARGEST_TENSORS = 2**27, 2**34
"""The most bytes of a file that is read, and of a file of tensors."""

_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags: never follow a link, and never wait for the other end of a pipe."""

_OF_RUNS = ("run.json", "job.json")
"""Files of which the private folder of a run has at least one."""

PROOF = "proof"
"""The folder below a merged model that holds the published one as it was."""

_KINDS = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder", stat.S_IFSOCK: "a socket"}


def read(path: Path) -> bytes:
    """The content of a plain file; `InputError` if there is none, or if it is too large."""
    try:
        found = check_plain(path)
        with os.fdopen(os.open(path, os.O_RDONLY | _CAREFULLY), "rb") as file:
            if not os.path.samestat(found, os.fstat(file.fileno())):
                raise InputError(f"{path} was replaced while it was read; ask for the folder again")
            return file.read(found.st_size + 1)
    except OSError as error:
        raise _cannot_read(path, error) from None


def _cannot_read(path: Path, error: OSError) -> InputError:
    """The error of a file of a published folder; or that the folder is a file, or that of a run, which publishes
    elsewhere."""
    folder = path.parent
    if folder.is_file():
        if (folder.parent / CERTIFICATE).is_file():
            return InputError(f"{folder} is one file of a published folder; name the folder, {folder.parent}")
        return InputError(f"{folder} is a file, and no published folder; name the folder: unpack an archive first")
    run = folder.parent / f"{folder.name}.run"
    if not folder.exists() and any((run / name).is_file() for name in _OF_RUNS):
        return InputError(f"there is no {folder} yet; finish its run first: discreet train --resume {typed(run)}")
    if path.name == CERTIFICATE and (folder / PROOF / CERTIFICATE).is_file():
        return InputError(f"{folder} is a merged model; its proof is in {folder / PROOF}: name that")
    if path.name != CERTIFICATE and (folder / CERTIFICATE).is_file():
        lacking = "it was published with the model: put it back, or " if isinstance(error, FileNotFoundError) else ""
        return InputError(f"cannot read {path}: {error.strerror}; {lacking}ask for the folder again")
    if path.name != CERTIFICATE or not any((folder / name).is_file() for name in _OF_RUNS):
        return InputError(f"cannot read {path}: {error.strerror}; name a folder that `discreet train` made")
    out = folder.with_suffix("") if folder.suffix == ".run" else None
    if out is not None and (out / CERTIFICATE).is_file():
        return InputError(f"{folder} is the private folder of a run; what it published is in {out}: name that")
    return InputError(
        f"{folder} is the private folder of a run, and not what it publishes; name {out or 'the published folder'}, or "
        f"finish the run first (discreet train --resume {typed(folder)}; in Python resume=True)"
    )


def check_plain(path: Path) -> os.stat_result:
    """The `stat` of a plain file that is not too large; `InputError` for any other. Nothing is opened."""
    try:
        found = path.lstat()
    except OSError as error:
        raise _cannot_read(path, error) from None
    if not stat.S_ISREG(found.st_mode):
        what = _KINDS.get(stat.S_IFMT(found.st_mode), "a device")
        raise InputError(f"{path} is {what}, not a plain file; copy the folder with the files themselves (`cp -rL`)")
    most = LARGEST_TENSORS if path.suffix == ".safetensors" else LARGEST
    if found.st_size > most:
        raise InputError(f"{path} has {found.st_size:,} bytes; at most {most:,} are read; ask for the folder again")
    return found


def read_certificate(folder: Path) -> dict[str, Any]:
    """The content of certificate.json, unchecked."""
    path = folder / CERTIFICATE
    content = read(path)
    check_values(content, str(path))
    try:
        facts = json.loads(content.decode("utf-8-sig"))  # with a mark at the start it is no strict JSON
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON in UTF-8 ({error}); ask for the folder again") from None
    if not isinstance(facts, dict):
        raise InputError(f"{path} is not a certificate; ask for the folder again")
    return facts


def software() -> dict[str, str]:
    """Names and versions, as a certificate states them. Without torch, folders can be verified and not made."""
    return {**versions("discreet", "torch", "numpy", "scipy"), "python": platform.python_version()}


def check_certificate(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Check that the certificate has a known version, reads the same for everybody, and keeps to its schema."""
    if facts.get("format") not in FORMATS:
        return False, f"format {str(facts.get('format'))[:80]!r} is none of {', '.join(FORMATS)}"
    strict_json(read(folder / CERTIFICATE), CERTIFICATE)
    found = certificate_fault(facts)
    return found is None, f"format {facts['format']!r}, every field of its schema" if found is None else found


def certificate_fault(facts: dict[str, Any]) -> str | None:
    """The fault in a certificate's form; None if there is none."""
    for text in texts(facts):
        if not text.isprintable():
            return f"the text {text[:80]!a} has characters that would change how other text is shown"
    found = fault(facts, _schema())
    if found is not None:
        return found
    record = facts["ledger"]["entries"]
    if facts["format"] == FORMATS[0] and any("times" in row for row in record):
        return f"the ledger has blocks that repeat, which {FORMATS[0]} has not"
    try:
        written_out(record)
    except InputError as error:
        return str(error)
    return None


def plan_fault(plan: dict[str, Any]) -> str | None:
    """The fault for which no verifier would read a plan, such as a sampler that is a plug-in; None if there is none."""
    schema = _schema()
    return fault(plan, schema["properties"]["plan"], schema, "plan")


def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(resources.files("discreet.certificate").joinpath(SCHEMA).read_text("utf-8"))
    return found


def check_model(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Check that the model is the certified one."""
    digest = hashlib.sha256(read(folder / MODEL)).hexdigest()
    stated = facts["model"]["sha256"]
    return digest == stated, f"{MODEL} has the certified SHA-256" if digest == stated else (
        f"{MODEL} has SHA-256 {digest}, the certificate says {stated}"
    )


def check_files(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Check that the other files (pages, plan, model.json) are those written with the certificate."""
    stated, names = facts["files"], hashed(facts)
    if set(stated) != set(names):
        return False, f"the certificate must state the hashes of {', '.join(names)}"
    for name in names:
        if hashlib.sha256(read(folder / name)).hexdigest() != stated[name]:
            return False, f"{name} was changed after publishing"
    ModelSpec.from_json(read(folder / "model.json"))
    fault = adapter_fault(facts, read(folder / MODEL), lambda name: read(folder / name))
    return fault is None, fault or f"{', '.join(names)} are as published"


def check_public_tensors(facts: dict[str, Any], folder: Path) -> tuple[bool, str]:
    """Check that all tensors but the private parameters are as the certificate declares them."""
    found = tensor_digests(read(folder / MODEL))
    initial, private = facts["model"]["initial"], set(facts["model"]["private"])
    if set(found) != set(initial):
        return False, f"tensors {sorted(set(found) ^ set(initial))} are in only one of model and certificate"
    if len(private) < len(facts["model"]["private"]) or not private <= set(found):
        return False, "a private parameter is named twice, or is not in the model"
    combined = "\n".join(f"{name} {initial[name]}" for name in sorted(initial))
    if facts["plan"]["initial_state"] != "sha256:" + hashlib.sha256(combined.encode()).hexdigest():
        return False, "the initial state is not the one that the plan declares"
    changed = [name for name in sorted(found) if name not in private and found[name] != initial[name]]
    if changed:
        return False, f"tensor {changed[0]!r} is neither a private parameter nor equal to its declared value"
    return True, f"{len(private)} private parameters; the other {len(found) - len(private)} tensors are as declared"
