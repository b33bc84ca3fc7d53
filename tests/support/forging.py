"""Forging: changes to the certificate of a published folder, told more or less consistently."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from discreet import verify
from discreet.certificate.equal_blocks import written_out
from discreet.verification import Verification
from discreet.verification.standalone import verify as reviewer

Facts = dict[str, Any]
Change = Callable[[Facts], object]
Forge = Callable[[Path], None]


def facts_of(folder: Path) -> Facts:
    """The certificate, with every entry of its ledger by itself."""
    facts: Facts = json.loads((folder / "certificate.json").read_text())
    if isinstance(facts.get("ledger"), dict):
        facts["ledger"]["entries"] = [copy.deepcopy(row) for row in written_out(facts["ledger"]["entries"])]
    return facts


def told(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    """The exit code of the one-file verifier, and what it says of a folder."""
    code = reviewer.main([str(folder), *options])
    return code, capsys.readouterr().out


def edit(*changes: Change) -> Forge:
    """Change certificate.json only."""

    def forge(folder: Path) -> None:
        facts = facts_of(folder)
        for change in changes:
            change(facts)
        (folder / "certificate.json").write_text(json.dumps(facts))

    return forge


def edit_consistently(*changes: Change) -> Forge:
    """Change the certificate, then recompute the fingerprint and write plan.yaml anew."""

    def agree(facts: Facts) -> None:
        facts["plan_fingerprint"] = f"sha256:{_digest(facts['plan'])}"

    def forge(folder: Path) -> None:
        edit(*changes, agree)(folder)
        plan = yaml.safe_dump(json.loads((folder / "certificate.json").read_text())["plan"], sort_keys=False)
        (folder / "plan.yaml").write_text(plan)
        edit(put("files", "plan.yaml", value=hashlib.sha256(plan.encode()).hexdigest()))(folder)

    return forge


def finds(check: str, verification: Verification) -> bool:
    """Whether the check meant for a forgery failed, or the first one: what breaks the schema is read no further."""
    failed = [one.name for one in verification.checks if not one.passed]
    return check in failed or failed == ["certificate"]


def assert_found(check: str, folder: Path) -> None:
    """A forged folder is rejected, by the check that is meant for the forgery."""
    found = verify(folder)
    assert not found.accepted
    assert finds(check, found), found.checks


def put(*path: Any, value: Any) -> Change:
    """Set one entry of the certificate; a function as value gets the old one."""

    def change(facts: Facts) -> None:
        inner: Any = facts
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value(inner[path[-1]]) if callable(value) else value

    return change


def times(factor: float) -> Callable[[float], float]:
    return lambda old: old * factor


def claim(name: str, value: Any) -> Change:
    return put("claim", name, value=value)


def entry(kind: str, name: str, value: Any, which: int = 0) -> Change:
    """Change a field of one entry of the ledger's record."""

    def change(facts: Facts) -> None:
        found = [one for one in facts["ledger"]["entries"] if one["kind"] == kind]
        put(name, value=value)(found[which])

    return change


def without_entry(kind: str, which: int = 0) -> Change:
    """Leave out one entry of the ledger's record."""

    def change(facts: Facts) -> None:
        record = facts["ledger"]["entries"]
        record.remove([one for one in record if one["kind"] == kind][which])

    return change


def resealed(facts: Facts) -> None:
    """Make the digest that of the entries."""
    facts["ledger"]["digest"] = _digest(facts["ledger"]["entries"])


def fingerprinted(facts: Facts) -> None:
    """Let the fingerprint, also that of the ledger's run, be that of the plan as it is now."""
    facts["plan_fingerprint"] = _opened(facts)["plan"] = f"sha256:{_digest(facts['plan'])}"
    resealed(facts)


def agreed(facts: Facts) -> None:
    """Plan, fingerprint and ledger told as one story."""
    _opened(facts)["epsilon"] = facts["claim"]["epsilon"]
    fingerprinted(facts)


def _opened(facts: Facts) -> dict[str, Any]:
    """The ledger's entry of the run."""
    found: dict[str, Any] = next(one for one in facts["ledger"]["entries"] if one["kind"] == "run")["body"]
    return found


def _digest(value: object) -> str:
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def forged(folder: Path, *changes: Change) -> None:
    """Change the certificate, and all that has to agree with it."""
    edit_consistently(*changes, agreed)(folder)


def again(kind: str) -> Change:
    """One more entry of the ledger like the last of its kind."""

    def change(facts: Facts) -> None:
        record = facts["ledger"]["entries"]
        record.append(dict([one for one in record if one["kind"] == kind][-1]))

    return change


def releases(facts: Facts) -> None:
    """A note for every run there was, which would tell how many."""
    record = facts["ledger"]["entries"]
    record += [record[1] | {"kind": "release", "position": 1, "body": {}} for _ in range(3)]


def candidate(value: float) -> Change:
    return put("plan", "search", "grid", 0, "values", value=lambda old: [*old, value])
