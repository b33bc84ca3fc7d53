"""What the README shows, runs."""

import re
import shlex
from pathlib import Path

import pytest

from discreet.cli.app import run

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_python_blocks_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), names)
    assert (tmp_path / "my-model" / "certificate.json").is_file()


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("discreet ")]
    assert len(commands) >= 4
    for command in commands:
        arguments = shlex.split(command)[1:]
        short = ["--set", "steps=3"] if arguments[0] == "train" else []
        assert run([*arguments, *short]) == 0, command
    shown = capsys.readouterr().out
    assert "epsilon 1.2829 (at least 1.28" in shown
    assert "noise multiplier 1.61" in shown
    assert "ACCEPTED" in shown
