"""An option that is given twice is refused by every command, unless nothing is lost or it may be repeated."""

from __future__ import annotations

from typing import Any

import pytest
from all_commands import COMMANDS
from typer.core import TyperOption

from discreet.cli.app import run

OPTIONS = [
    (command, option)
    for command, found in COMMANDS.items()
    for option in found.params
    if isinstance(option, TyperOption) and not option.multiple and not option.is_flag
]


@pytest.mark.parametrize(("command", "option"), OPTIONS, ids=lambda one: getattr(one, "name", one))
def test_every_command_refuses_a_second_value(command: str, option: Any, capsys: pytest.CaptureFixture[str]) -> None:
    name = option.opts[0]
    assert run([*command.split(), f"{name}=1", name, "1"]) == 2
    assert capsys.readouterr().err.startswith(f"discreet: {name} is given twice; give it once")


def test_both_of_a_pair_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "digits", "--probe", "--no-probe"]) == 2
    wanted = "discreet: --probe or --no-probe is given twice; give one of them, once\n"
    assert capsys.readouterr().err == wanted


@pytest.mark.parametrize("given", [["--target", "a", "--target", "b"], ["--keep=a", "--keep", "b"]])
def test_lists_that_are_given_in_parts_are_told_how(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    name = given[0].partition("=")[0]
    assert run(["train" if name == "--target" else "predict", "absent", "absent.csv", *given]) == 2
    assert capsys.readouterr().err == f"discreet: {name} is given twice; give it once, with all names: {name} A,B\n"


def test_what_loses_nothing_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    plan = ["epsilon", "--sampling", "poisson", "--rate", "0.01", "--noise", "6", "--steps", "40", "--delta", "1e-5"]
    assert run([*plan, "--json", "--json"]) == 0
    assert run(["train", "digits", "--set", "steps=3", "--set", "epsilon=1", "--show-settings"]) == 0
    assert "steps=3" in capsys.readouterr().out


def test_the_value_of_another_option_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """A title may read like an option: what is counted is what the parser takes for one."""
    assert run(["train", "digits", "--title", "--note", "--note", "one", "--show-settings"]) == 0
    assert "twice" not in capsys.readouterr().err
