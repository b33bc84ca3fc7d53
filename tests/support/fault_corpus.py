"""Command lines with their files that once broke the rule (`fault_rule`), as JSON; and how one is made smaller.

    {"arguments": ["plan", "r.yaml"], "files": {"r.yaml": CONTENT}, "was": "hung", "code": 2, "said": "levels"}

CONTENT is a text; {"base64": ...}; a list of texts and of [text, times], put together; or {"kind": "pipe"}, "folder",
"loop" (a link to itself). `model` is a copy of a published folder, whose files may be others. `was` says what was
wrong; `code` and `said` what must be answered now, and a part of its words.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from fault_rule import Try, run_in_a_fork

CORPUS = Path(__file__).parents[1] / "faults" / "corpus"
STREAMS = ("stdout", "stderr")
MOST = 150
"""So many tries at most to make an input smaller."""

T = TypeVar("T")
Files = dict[str, bytes]
Fails = Callable[[Sequence[str], Files], bool]


def replay(entry: dict[str, Any], folder: Path) -> str:
    """Run an entry in a new folder; what is wrong with the answer, or ""."""
    folder.mkdir()
    if "model" in entry["arguments"]:
        shutil.copytree(os.environ["DISCREET_FAULTS_PUBLISHED"], folder / "model")
    for name, content in entry["files"].items():
        _put(folder / name, content)
    found = run_in_a_fork(entry["arguments"], folder)
    shutil.rmtree(folder)
    if found.fault:
        return f"{found.fault}: {found.stderr[-200:]}"
    if found.code != entry["code"] or entry["said"] not in found.stderr:
        return f"exit code {found.code}, {found.stderr[-300:]!r}; wanted {entry['code']} and {entry['said']!r}"
    return ""


def _put(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = content.get("kind") if isinstance(content, dict) else None
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_bytes(_bytes(content))


def _bytes(content: Any) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", "surrogatepass")
    if isinstance(content, dict):
        return base64.b64decode(content["base64"])
    return b"".join(_bytes(one) if isinstance(one, str) else _bytes(one[0]) * one[1] for one in content)


# New entries --------------------------------------------------------------------------------------------------------


def kept(found: Try, folder: Path, scratch: Path) -> dict[str, Any]:
    """An entry for what broke the rule in `folder`, made as small as may be in `scratch`."""
    files, odd = _found(folder)

    def fails(arguments: Sequence[str], files: Files) -> bool:
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch, symlinks=True, ignore=lambda _, names: [one for one in names if one in odd])
        for name, content in odd.items():
            _put(scratch / name, content)
        for name, content in files.items():
            (scratch / name).write_bytes(content)
        given = [one.replace(str(folder), str(scratch)) for one in arguments]
        again = run_in_a_fork(given, scratch)
        return again.fault is not None and again.fault.split()[:1] == (found.fault or "").split()[:1]

    arguments, files = shrunk(found.arguments, files, fails)
    relative = [one.replace(f"{folder}/", "") for one in arguments]
    there = {name: _as_json(content) for name, content in files.items()} | odd
    named = {name: there[name] for name in there if name.split("/")[0] in relative}
    return {"arguments": relative, "files": named, "was": found.fault, "code": 2, "said": ""}


def shrunk(arguments: Sequence[str], files: Files, fails: Fails) -> tuple[list[str], Files]:
    """Fewer arguments and shorter files for which `fails` holds still: halves, quarters and so on are left out in turn
    (delta debugging, Zeller and Hildebrandt 2002), up to `MOST` tries in all."""
    left = [MOST]

    def holds(arguments: Sequence[str], files: Files) -> bool:
        left[0] -= 1
        return left[0] >= 0 and fails(arguments, files)

    def with_content(name: str, others: Files, some: list[int]) -> bool:
        return holds(given, others | {name: bytes(some)})

    given = _fewer(list(arguments), lambda some: bool(some) and holds(some, files))
    for name in sorted(files):
        if not any(name in one for one in given):
            continue
        files = files | {name: bytes(_fewer(list(files[name]), partial(with_content, name, files)))}
    return given, files


def _fewer(items: list[T], holds: Callable[[list[T]], bool]) -> list[T]:
    parts = 2
    while items and parts <= 2 * len(items):
        size = max(1, len(items) // parts)
        for start in range(0, len(items), size):
            some = items[:start] + items[start + size :]
            if holds(some):
                items, parts = some, 2
                break
        else:
            parts *= 2
    return items


def _found(folder: Path) -> tuple[Files, dict[str, Any]]:
    """The files in a folder that can be shortened; and what is there that is none."""
    files: Files = {}
    odd: dict[str, Any] = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            odd[path.name] = {"kind": "loop"}
        elif path.is_fifo():
            odd[path.name] = {"kind": "pipe"}
        elif path.is_file() and path.name not in STREAMS:
            files[path.name] = path.read_bytes()
    model, source = folder / "model", Path(os.environ["DISCREET_FAULTS_PUBLISHED"])
    for path in sorted(model.iterdir()) if model.is_dir() else []:
        if path.read_bytes() != (source / path.name).read_bytes():
            files[f"model/{path.name}"] = path.read_bytes()
    return files, odd


def _as_json(content: bytes) -> Any:
    try:
        text = content.decode()
    except ValueError:
        return {"base64": base64.b64encode(content).decode()}
    return text


def entries() -> dict[str, dict[str, Any]]:
    """All entries that are kept, by name."""
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(CORPUS.glob("*.json"))}
