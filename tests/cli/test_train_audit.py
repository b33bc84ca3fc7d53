"""`discreet train --audit`: the build is audited on made-up rows first, and report and card say what was measured."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from npz_recipes import FAST

from discreet.audit import Audit, Outcome, audit_build
from discreet.certificate.model_spec import ModelSpec
from discreet.cli.app import run
from discreet.core.errors import InputError, PrivacyViolation
from discreet.jobs import train

FAULTY = Audit((Outcome("replay/huge", "one unit moves what is released by 3.0 of the sensitivity", wrong=True),))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits of a tenth of the usual length."""
    monkeypatch.setattr(train, "audit_build", partial(audit_build, effort=0.1))


def measured(folder: Path) -> Any:
    return ModelSpec.from_json((folder / "model.json").read_text()).measured


def test_what_was_measured_is_in_report_and_card_and_sealed(
    tmp_path: Path, short: None, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(["train", "digits", *FAST, "--audit", "--out", str(out)]) == 0
    found = measured(out)
    names = [one.name for one in found.checks]
    assert {"replay/ordinary", "noise/law", "draws", "charges", "game/loud"} <= set(names)
    report, card = (out / "report.html").read_text(), (out / "README.md").read_text()
    for page in (report, card):
        assert "What was measured" in page
        assert f"{len(names)} checks" in page
        assert "never a guarantee" in page
    assert run(["verify", str(out)]) == 0
    facts = json.loads((out / "model.json").read_text())
    facts["measured"]["checks"] = facts["measured"]["checks"][:1]
    (out / "model.json").write_text(json.dumps(facts))
    capsys.readouterr()
    assert run(["verify", str(out)]) == 1
    assert "model.json" in capsys.readouterr().out


def test_nothing_is_said_without_an_audit(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(["train", "digits", *FAST, "--out", str(out)]) == 0
    assert measured(out) is None
    assert "What was measured" not in (out / "report.html").read_text() + (out / "README.md").read_text()


def test_a_build_that_fails_is_not_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "audit_build", lambda _subject: FAULTY)
    assert run(["train", "digits", *FAST, "--audit", "--out", str(tmp_path / "out")]) != 0
    said = capsys.readouterr().err
    assert "does not do what its plan says" in said
    assert "replay/huge: one unit moves" in said
    assert list(tmp_path.iterdir()) == []


def test_findings_are_never_published_as_an_audit() -> None:
    with pytest.raises(PrivacyViolation, match="1 of 1 check fails"):
        FAULTY.measured()


def test_a_run_that_is_resumed_keeps_its_audit(
    tmp_path: Path, short: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_args: Any) -> None:
        raise InputError("the disk is full")

    out = tmp_path / "out"
    with monkeypatch.context() as once:
        once.setattr(train, "publish", full)
        assert run(["train", "digits", *FAST, "--audit", "--out", str(out)]) == 2
    kept = json.loads((tmp_path / "out.run" / "job.json").read_text())["measured"]
    assert run(["train", "--resume", str(tmp_path / "out.run"), "--audit"]) == 2
    assert "leave out" in capsys.readouterr().err
    assert run(["train", "--resume", str(tmp_path / "out.run")]) == 0
    assert measured(out).model_dump(mode="json") == kept


def test_a_dry_run_audits_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "digits", "--audit", "--dry-run", "--out", str(tmp_path / "out")]) == 2
    assert "leave out --audit" in capsys.readouterr().err


def test_it_is_for_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    assert run(["train", "digits", *FAST, "--audit", "--processes", "2", "--out", out]) == 2
    assert "`discreet audit build`" in capsys.readouterr().err
