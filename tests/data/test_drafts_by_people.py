"""Drafts of tables whose rows are visits of people, of spreadsheets with a decimal comma, and what a user fills in."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.data.tables import load_schema
from discreet.data.tables.drafting.draft import draft
from discreet.data.tables.drafting.draft_column import Known


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    path.write_text(
        "patient,day,note,outcome\n" + "".join(f"p{i % 4},03.0{1 + i % 9}.2021,n{i},ill\n" for i in range(9))
    )
    return path


def test_with_people_as_units_the_draft_offers_rows_of_each_and_nothing_to_buy(visits: Path) -> None:
    assert "buy" in draft(visits)
    assert "buy" in draft(visits, known=Known(unit="row"))
    text = draft(visits, known=Known(unit="patient"))
    assert "buy" not in text
    assert "unit: patient\n# rows_per_unit: 4  # " in text
    assert "rows_per_unit" not in draft(visits, known=Known(unit="row"))


def test_a_text_beside_other_columns_is_to_be_ignored(visits: Path, tmp_path: Path) -> None:
    (line,) = [one for one in draft(visits).splitlines() if one.startswith("  note: ")]
    assert line.endswith("# of free text, {type: text} if alone, else {type: ignore}")
    schema = tmp_path / "t.yaml"
    schema.write_text(
        "unit: row\npopulation: 9\ntarget: outcome\ncolumns:\n  note: {type: text}\n"
        "  day: {type: date, low: 2021-01-01, high: 2022-01-01}\n  outcome: {type: category, categories: [ill, well]}\n"
    )
    with pytest.raises(InputError, match=r"'note' and no other .*; say type: ignore for it, or for all others: day$"):
        load_schema(schema)


@pytest.mark.parametrize("low", ["01.01.1920", "1920", "'1920-1-1'", "1920-01-01 10:00:00"])
def test_a_day_in_another_form_is_told_how_days_are_written(low: str, tmp_path: Path) -> None:
    schema = tmp_path / "t.yaml"
    schema.write_text(
        f"unit: row\npopulation: 9\ntarget: day\ncolumns:\n  day: {{type: date, low: {low}, high: 2022-01-01}}\n"
    )
    with pytest.raises(InputError, match=r"day.*low: a day is written as 2024-12-31 here, .* got '(1920|01\.01\.1920)"):
        load_schema(schema)


def test_the_decimal_mark_of_a_spreadsheet_is_kept_and_a_comma_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = [12.5, "<0,5", 3.25, 8.0] * 10
    frame = pd.DataFrame({"crp": cells, "outcome": ["ill", "well"] * 20})
    frame.to_excel("lab.xlsx", index=False)
    known = ("--target", "outcome", "--unit", "row", "--population", "40")
    assert run(["schema", "lab.xlsx", "--decimal", ",", *known, "--out", "t.yaml"]) == 0
    text = Path("t.yaml").read_text()
    assert "csv: {decimal: ','}" in text
    assert "crp: {type: number, low: 0, high: 500, censored: bound}" in text
    ready = text.replace("categories: FILL_IN", "categories: [ill, well]")
    Path("t.yaml").write_text(ready)
    plan = ("--schema", "t.yaml", "--epsilon", "3", "--delta", "1e-3")
    capsys.readouterr()
    assert run(["train", "lab.xlsx", *plan, "--set", "steps=2"]) == 0
    Path("t.yaml").write_text(ready.replace("csv: {decimal: ','}\n", ""))
    capsys.readouterr()
    assert run(["train", "lab.xlsx", *plan, "--out", "other"]) == 2
    said = capsys.readouterr().err
    assert "'<0,5' is not a number: the decimal mark is '.'; say csv: {decimal: ','} if a comma is" in said
