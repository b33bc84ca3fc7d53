"""`discreet debug` of a table: on the rows of --test, and of nothing else unless all are declared public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from discreet.cli.app import run

SCHEMA: dict[str, Any] = {
    "unit": "row",
    "population": 400,
    "target": "ill",
    "columns": {
        "age": {"type": "number", "low": 0, "high": 100},
        "ill": {"type": "category", "categories": ["no", "yes"], "weights": {"yes": 2}},
    },
}
FEW = ["--set", "steps=40", "--set", "averaging.start=20", "--set", "engine=bookkeeping", "--json"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ages = np.random.Generator(np.random.PCG64(1)).integers(0, 100, 200)
    lines = ["age,ill", *(f"{age},{'yes' if age > 60 else 'no'}" for age in ages)]
    Path("test.csv").write_text("\n".join(lines) + "\n")
    Path("private.csv").write_text("this is no table, and a run that reads it fails\n")


def arguments(**changes: Any) -> list[str]:
    Path("s.yaml").write_text(yaml.safe_dump(SCHEMA | changes))
    return ["debug", "private.csv", "--schema", "s.yaml", "--epsilon", "3"]


def test_private_rows_are_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments(), "--test", "test.csv", *FEW]) == 0
    rungs = json.loads(capsys.readouterr().out)
    assert [(rung["name"], rung["fault"]) for rung in rungs] == [("plain", None), ("clipped", None), ("noisy", None)]
    assert all(rung["metrics"]["accuracy"] > 0.8 for rung in rungs)
    assert sorted(path.name for path in Path().iterdir()) == ["private.csv", "s.yaml", "test.csv"]


def test_the_table_is_read_if_it_is_declared_public(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments(), "--test", "test.csv", "--all-public", *FEW]) == 2
    assert "private.csv" in capsys.readouterr().err
    lines = Path("test.csv").read_text().splitlines()
    Path("private.csv").write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    assert run([*arguments(), "--test", "test.csv", "--all-public", *FEW]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


def test_without_public_rows_it_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments(), *FEW]) == 2
    assert "name a table that may be public with --test" in capsys.readouterr().err


def test_bought_columns_are_declared_first(capsys: pytest.CaptureFixture[str]) -> None:
    columns = SCHEMA["columns"] | {"age": {"type": "number", "buy": {"noise": 10, "between": [0, 1000]}}}
    assert run([*arguments(columns=columns), "--test", "test.csv", *FEW]) == 2
    assert "the range of age would be bought, and the debug ladder buys nothing; declare" in capsys.readouterr().err
