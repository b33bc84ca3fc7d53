"""What no command expects ends in one line and an exit code of its own."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli import app
from discreet.cli.app import run


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("a private row"), 70, "RuntimeError: this is a defect of discreet; please report it"),
        (RecursionError("deep"), 70, "RecursionError: this is a defect"),
        (OverflowError("large"), 70, "OverflowError: this is a defect"),
        (OSError(errno.ENOSPC, "No space left on device", "/full/file"), 2, "cannot use /full/file: No space left"),
        (OSError(errno.EIO, "Input/output error"), 2, "cannot use: Input/output error"),
        (MemoryError(), 2, "there is not enough memory"),
    ],
)
def test_a_defect_is_one_line_and_shown_with_debug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int, said: str
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(app, "_run", fail)
    assert run(["epsilon"]) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"discreet: {said}")
    assert "a private row" not in line
    assert run(["epsilon", "--debug"]) == code
    *shown, line = capsys.readouterr().err.splitlines()
    assert shown[0].startswith("Traceback")
    assert line.startswith(f"discreet: {said}")


def test_debug_is_an_option_of_every_command_and_changes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["epsilon", "--rate", "0.01", "--noise", "1", "--steps", "10", "--delta", "1e-5"]
    assert run(arguments) == 0
    plain = capsys.readouterr().out
    assert run(["--debug", *arguments]) == run([*arguments, "--debug"]) == 0
    assert capsys.readouterr().out == plain * 2


def test_a_reader_who_has_read_enough_ends_a_command_quietly(tmp_path: Path) -> None:
    command = f"{sys.executable} -m discreet train --help | true"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert done.returncode in (0, 141)
