"""Folders and certificates that are not what they should be: refused in words, never accepted, and no crash."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forging import edit, put

from discreet import InputError, verify
from discreet.verification.checks import fixed_plan

pytestmark = pytest.mark.usefixtures("recomputed_once")


@pytest.mark.parametrize("name", ["certificate.json", "model.safetensors", "plan.yaml"])
def test_a_missing_file_is_an_input_error(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=re.escape(name)):
        verify(folder)


def test_a_missing_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        verify(tmp_path / "nowhere")


NOT_CERTIFICATES = {
    "empty": b"",
    "cut": b"{",
    "list": b"[]",
    "null": b"null",
    "number": b"7",
    "zero byte": b"\0",
    "not text": b"\xff\xfe\xfa",
    "nested too deeply": b"[" * 100_000,
}


@pytest.mark.parametrize("case", NOT_CERTIFICATES)
def test_a_certificate_that_cannot_be_read_is_an_input_error(folder: Path, case: str) -> None:
    (folder / "certificate.json").write_bytes(NOT_CERTIFICATES[case])
    with pytest.raises(InputError, match=r"certificate\.json"):
        verify(folder)


def test_a_plan_nested_too_deeply_is_rejected(folder: Path) -> None:
    (folder / "plan.yaml").write_text("[" * 1_000)
    assert not verify(folder).accepted


@pytest.mark.parametrize("nested", [False, True])
def test_events_of_another_plan_are_not_added_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, nested: bool
) -> None:
    """A thousand million steps in a few letters took a minute and a half."""

    def longer(events: dict[str, Any]) -> dict[str, Any]:
        first = events["of"][0]
        many = {"event": "repeat", "count": 10**9, "of": first["of"]}
        return events | {"of": [first | {"of": many} if nested else many, *events["of"][1:]]}

    edit(put("events", value=longer))(folder)
    monkeypatch.setattr(fixed_plan, "decide", lambda *_: pytest.fail("they were added up"))
    failed = {check.name for check in verify(folder).checks if not check.passed}
    assert {"events", "epsilon"} <= failed


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*path, key)
        yield from paths_in(one, (*path, key))


BESIDE_THE_CLAIM = {
    ("software",),
    ("assumptions",),
    ("public_evaluations",),
    ("claim", "lower"),
    ("model", "file"),
}
"""Statements from which nothing about privacy follows; the verifier does not look at them."""


STRANGE = [None, "x", -1, 10**400, 1e308, math.nan, [], {}, [[]], {"event": "compose", "of": []}, "\ud800"]


def test_no_strange_value_anywhere_makes_the_verifier_crash_or_accept(folder: Path) -> None:
    facts = json.loads((folder / "certificate.json").read_text())
    for number, path in enumerate(paths_in(facts)):
        for value in (STRANGE[number % len(STRANGE)], STRANGE[(number * 3 + 5) % len(STRANGE)]):
            forged = json.loads(json.dumps(facts))
            put(*path, value=value)(forged)
            if forged == facts:
                continue
            (folder / "certificate.json").write_text(json.dumps(forged))
            verification = verify(folder)
            json.dumps(verification.as_dict())
            if verification.accepted:
                assert path[:1] in BESIDE_THE_CLAIM or path[:2] in BESIDE_THE_CLAIM, (path, value)
