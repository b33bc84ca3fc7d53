"""JSON that commands print: in the words of the standard, which has none for infinity, and by one encoder."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path
from typing import NoReturn

import pytest
from ledgers import PLAN, guarantee

import discreet.cli
from discreet.cli.app import run
from discreet.cli.options.json_output import echo_json, encoded
from discreet.ledger import Ledger

TEXTS = ["Infinity", 'a "NaN" b', "\\", '\\"', "-Infinity, NaN", "\N{GREEK SMALL LETTER EPSILON}"]


def strict(text: str) -> object:
    """What a parser reads that keeps to the standard."""

    def refused(name: str) -> NoReturn:
        raise ValueError(name)

    return json.loads(text, parse_constant=refused)


@pytest.mark.parametrize("ascii_only", [True, False])
def test_numbers_without_a_word_have_one_and_texts_stay(ascii_only: bool) -> None:
    given = {"Infinity": [math.inf, -math.inf, math.nan, 1e300, *TEXTS], "NaN": {text: text for text in TEXTS}}
    read = given | {"Infinity": [math.inf, -math.inf, None, 1e300, *TEXTS]}
    assert strict(encoded(given, ascii_only=ascii_only)) == read
    assert encoded([math.inf, -math.inf, math.nan]) == "[1e999, -1e999, null]"


def test_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    echo_json({"a": "line\nanother", "b": math.inf})
    assert capsys.readouterr().out == '{"a": "line\\nanother", "b": 1e999}\n'


def test_a_data_set_of_which_all_is_known_has_spent_a_number_beyond_all_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.open_run(PLAN, guarantee(math.inf), "people")
    ledger.close()
    capsys.readouterr()
    assert run(["ledger", "budget", "--ledger", str(tmp_path / "l.sqlite"), "--dataset-id", "people", "--json"]) == 0
    read = strict(capsys.readouterr().out)
    assert isinstance(read, dict)
    assert read["spent"]["epsilon"] == math.inf


def test_no_command_encodes_json_by_itself() -> None:
    """What is written for people, as the settings of candidates are, is no JSON."""
    found = [
        f"{path.name}:{node.lineno}"
        for path in Path(discreet.cli.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.dumps", "dumps")
    ]
    assert [one.split(":")[0] for one in found] == ["json_output.py"], found
