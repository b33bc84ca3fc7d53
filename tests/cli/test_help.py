"""The command line explains itself: every command has an example that it can parse, and the shell completes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from all_commands import COMMANDS, ROOT

from discreet.cli.app import COMMANDS as ALL
from discreet.cli.app import run
from discreet.cli.show.examples import EXAMPLES


def parsed(arguments: list[str]) -> tuple[str, dict[str, Any]]:
    """The words of the command that these arguments call, and its parameters; nothing is run."""
    command, words, context = ROOT, [], ROOT.make_context("discreet", list(arguments))
    while hasattr(command, "commands"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        words.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(words), context.params


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_an_example_that_parses(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (COMMANDS[name].help or "").strip().endswith(".")
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} says nothing of itself"
    assert run([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out.split("Example:")[1:]
    for line, here in zip(EXAMPLES[name].splitlines(), shown, strict=True):
        program, *arguments = shlex.split(line)
        assert program == "discreet"
        called, parameters = parsed(arguments)
        assert called == name
        assert any(value not in (None, False, "", ()) for value in parameters.values())
        assert arguments[0] in here


def test_the_list_of_all_says_what_each_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """The list is shown without loading a command."""
    assert {name: said for name, (_, said) in ALL.items()} == {
        name: command.help.split("\n\n")[0] for name, command in ROOT.commands.items()
    }
    assert run(["--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(name in shown for name in ALL)
    assert run(["trian"]) == 2
    assert "No such command 'trian'" in capsys.readouterr().err


def test_a_command_loads_no_other() -> None:
    look = "import sys; assert not [name for name in sys.modules if name in ('scipy', 'numpy', 'torch')]"
    helps = [[name, "--help"] for name in ("verify", "epsilon", "compare", "calibrate", "ledger")]
    for arguments in (["--version"], ["--help"], *helps):
        code = f"from discreet.cli.app import run; assert run({arguments}) == 0; {look}"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(("own", "used"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")])
def test_a_command_that_prices_starts_no_threads_unless_told_to(own: dict[str, str], used: str) -> None:
    code = "import os, atexit; atexit.register(lambda: print(os.environ.get('OPENBLAS_NUM_THREADS')))"
    code += "\nfrom discreet.cli import main; main(['epsilon', '--noise', '1', '--steps', '1', '--delta', '.1'])"
    bare = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=bare | own, check=False)
    assert done.stdout.splitlines()[-1] == used


def test_defaults_in_brackets_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--help"]) == 0
    assert run(["tune", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "[digits]" in said
    assert "[geometric]" in said
    assert "\\[" not in said


def test_an_example_that_does_not_parse_is_noticed() -> None:
    with pytest.raises(Exception, match="--nosuch"):
        parsed(["train", "digits", "--nosuch", "1"])
    with pytest.raises(Exception, match="valid number"):
        parsed(["epsilon", "--rate", "x"])


def test_the_shell_completes_commands_and_options() -> None:
    for words, wanted in (("discreet ver", "verify"), ("discreet train --hold", "--holdout")):
        asked = {"_DISCREET_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        command = [sys.executable, "-c", "from discreet.cli import main; main()"]
        found = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
        assert wanted in found.stdout.split(), found.stderr


def test_an_unknown_option_is_told_where_the_options_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "folder", "--out", "model.onnx"]) == 2
    wanted = "No such option: --out; `discreet export --help` lists those that there are"
    assert capsys.readouterr().err == f"discreet: {wanted}\n"
    assert run(["ledger", "show", "--nosuch"]) == 2
    assert "`discreet ledger show --help`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ledger", "show", "t.sqlite"], "`discreet ledger show --help` lists those that there are"),
        (["epsilon", "--rate", "0,5"], "Invalid value for '--rate': must be a number, such as 2000 or 1e-5"),
        (["epsilon", "--steps", "many"], "Invalid value for '--steps': must be a whole number, such as 200"),
        (["suggest", "--population", "many", "--epsilon", "1"], "must be a number, such as 2000, got 'many'"),
        (["suggest", "--population", "2.000", "--epsilon", "1"], "2.000 can be read in two ways; write 2000"),
        (["plan", "t.csv", "--population", "1,200,000"], "1,200,000 can be read in two ways; write 1200000"),
        (["train", "digits", "--set", "steps=1.000"], "--set steps: 1.000 can be read in two ways; write 1000"),
    ],
)
def test_what_cannot_be_read_is_told_how_it_is_written(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err


def test_examples_about_digits_can_be_carried_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are checked whole, and nothing is trained."""
    monkeypatch.chdir(tmp_path)
    for name in ("train", "tune", "plan"):
        line = EXAMPLES[name].splitlines()[0]
        quick = {"plan": "--no-probe"}.get(name, "--dry-run")
        assert run([*shlex.split(line)[1:], quick]) == 0, capsys.readouterr().err
