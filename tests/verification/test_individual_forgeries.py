"""Budgets of single units in certificates: both verifiers accept what is true, and reject what is not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from every_kind import published
from forging import Change, Facts, facts_of, finds, forged, put

from discreet import verify
from discreet.accounting.account import guarantee
from discreet.core import assumptions
from discreet.core.events.event_json import from_json
from discreet.verification.standalone import verify as reviewer

SENTENCES = assumptions.INDIVIDUAL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published(tmp_path_factory.mktemp("individual"), "individual")


def of_every_event(change: dict[str, Any]) -> Change:
    """Change what events say, wherever they stand, and claim what they then cost, where they can be read."""

    def walk(found: Any) -> None:
        for one in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
            walk(one)
        if isinstance(found, dict) and found.get("event") == "individual":
            found.update(change)

    def forge(facts: Facts) -> None:
        walk(facts["events"])
        walk(facts["ledger"]["entries"])
        epsilon = guarantee(from_json(facts["events"]), facts["claim"]["delta"]).epsilon * (1 + 5e-4)
        facts["claim"] |= {"epsilon": epsilon, "lower": None}

    return forge


def engine(name: str, bits: int) -> Change:
    """Another engine, told consistently."""

    def forge(facts: Facts) -> None:
        facts["mechanism"] |= {"engine": name, "float_bits": bits}
        facts["assumptions"][-1] = assumptions.engine(name, bits)
        for one in facts["ledger"]["entries"]:
            if one["kind"] == "attempt":
                one["body"] |= {"engine": name, "float_bits": bits}

    return forge


def sentences_left_out(facts: Facts) -> None:
    facts["assumptions"] = [one for one in facts["assumptions"] if one not in SENTENCES]


def test_the_truth_is_accepted_and_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folder).accepted
    assert reviewer.main([str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split()).replace("- ", "")
    assert all(" ".join(one.split()).replace("- ", "") in said for one in SENTENCES)
    for page in ("report.html", "README.md"):
        assert "budget of its own" in (folder / page).read_text()
    assert facts_of(folder)["claim"]["epsilon"] < guarantee(from_json(facts_of(folder)["events"]), 1e-5).epsilon * 1.001


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (of_every_event({"full": 1}), "events"),
        (of_every_event({"steps": 2}), "events"),
        (put("plan", "sampling", "full", value=1), "events"),
        (put("plan", "sampling", "period", value=8), "events"),
        (put("claim", "epsilon", value=lambda old: 0.9 * old), "epsilon"),
        (engine("bookkeeping", 12), "mechanism"),
        (engine("reference", 12), "mechanism"),
        (put("plan", "sampling", value={"kind": "none"}), "events"),
    ],
)
def test_forgeries_are_rejected_by_both(
    folder: Path, tmp_path: Path, change: Change, check: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "out")
    forged(tmp_path / "out", change)
    assert finds(check, verify(tmp_path / "out"))
    assert reviewer.main([str(tmp_path / "out")]) == 1
    assert "REJECTED" in capsys.readouterr().out


def test_a_claim_without_its_assumption_is_rejected(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "out")
    forged(tmp_path / "out", sentences_left_out)
    assert finds("mechanism", verify(tmp_path / "out"))
