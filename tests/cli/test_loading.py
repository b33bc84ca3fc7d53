"""While a command loads what it needs, nothing is collected; afterwards all is as it was."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.cli.app import run
from discreet.cli.loading import loading


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_nothing_is_collected_inside_and_garbage_is_afterwards() -> None:
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
    ring: list[object] = []
    ring.append(ring)
    del ring
    assert gc.collect() > 0


def test_what_the_user_turned_off_stays_off() -> None:
    gc.disable()
    try:
        with loading():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_person_at_a_terminal_is_told_what_goes_on_and_what_to_do_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(["train", "digits", "--epsilon", "2", "--set", "steps=5", "--out", "out"]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("loading PyTorch, then checking plan")
    assert "read out/report.html, and check it: discreet verify out\n" in said.err
    assert said.out.startswith("out: certified epsilon ")
    assert len(said.out.splitlines()) == 1


def test_scripts_get_the_result_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", "digits", "--epsilon", "2", "--set", "steps=5", "--out", "out"]) == 0
    assert capsys.readouterr().err == ""


def test_ctrl_c_in_a_command_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.publication.verify", stopped)
    assert run(["verify", "out"]) == 130
    assert capsys.readouterr().err == "discreet: interrupted\n"
