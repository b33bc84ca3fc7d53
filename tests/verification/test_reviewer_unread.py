"""verify.py where it reads no folder, or cannot read all of one: it says what is the matter, and accuses nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
from forging import told

from discreet.certificate.files import FILES
from discreet.verification.standalone import verify as reviewer

WRONG = [
    [],
    ["--help"],
    ["F", "--key"],
    ["F", "--key", "mine.pub"],
    ["F", "G"],
    ["F", "--key " + "0" * 64],
    ["--strict"],
    ["lacking"],
    ["F/plan.yaml"],
    [""],
]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_a_wrong_call_is_no_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(folder.rename(folder.with_name("F")).parent)
    assert reviewer.main(arguments) == 2
    assert capsys.readouterr().out.startswith("use: verify.py FOLDER")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_lacking_is_named(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (folder / name).unlink()
    assert told(folder, capsys) == (1, f"REJECTED: {name} is not in the folder\n")


def test_a_file_that_may_not_be_read_accuses_nobody(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied", "model.safetensors")

    monkeypatch.setattr("os.open", refused)
    code, said = told(folder, capsys)
    monkeypatch.undo()
    assert (code, said) == (1, "NOT COVERED: PermissionError [Errno 13] Permission denied: 'model.safetensors'\n")


def test_a_reader_without_memory_accuses_nobody(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> float:
        raise MemoryError("Unable to allocate 19.1 GiB")

    monkeypatch.setattr(reviewer, "epsilon_of", exhausted)
    assert told(folder, capsys) == (1, "NOT COVERED: MemoryError Unable to allocate 19.1 GiB\n")
