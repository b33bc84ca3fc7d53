"""Tables that were written from a frame of pandas: its index is no feature, and other files of it are no tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import yaml

from discreet.cli.app import run

FRAME = pd.DataFrame({"age": [44, 50, 61], "ill": [True, False, True]}, index=[5, 7, 9])


def drafted(name: str) -> dict[str, dict[str, object]]:
    assert run(["schema", name, "--target", "ill", "--unit", "row", "--population", "3", "--out", "t.yaml"]) == 0
    found: dict[str, dict[str, object]] = yaml.safe_load(Path("t.yaml").read_text())["columns"]
    return found


def test_the_index_of_a_frame_in_parquet_is_ignored() -> None:
    FRAME.to_parquet("t.parquet")
    columns = drafted("t.parquet")
    assert columns.pop("__index_level_0__") == {"type": "ignore"}
    assert list(columns) == ["age", "ill"]


def test_the_index_of_a_frame_in_text_is_ignored() -> None:
    FRAME.to_csv("t.csv")
    assert drafted("t.csv")["column 1"] == {"type": "ignore"}
    Path("t.yaml").unlink()
    pd.read_csv("t.csv").to_csv("again.csv", index=False)
    assert drafted("again.csv")["Unnamed: 0"] == {"type": "ignore"}


def test_a_first_column_of_a_table_without_names_is_a_column() -> None:
    FRAME.to_csv("t.csv", header=False, index=False)
    arguments = ["schema", "t.csv", "--no-header", "--out", "t.yaml"]
    assert run(arguments) == 0
    assert yaml.safe_load(Path("t.yaml").read_text())["columns"]["column 1"]["type"] == "number"


@pytest.mark.parametrize("name", ["t.pkl", "t.json"])
def test_files_that_are_no_tables_are_refused_by_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    FRAME.to_pickle("t.pkl")
    FRAME.to_json("t.json")
    assert run(["schema", name, "--out", "t.yaml"]) == 2
    assert f"{name} is no table that can be read; give .csv, .parquet, .jsonl" in capsys.readouterr().err
