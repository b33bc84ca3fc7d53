"""Values of a column as files write them: limits, marks and codes; and faults, each named by its row or line."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from discreet.core.errors import InputError
from discreet.data.tables import Encoder, Schema, blocks, public_table
from discreet.data.tables.drafting.draft import draft
from discreet.data.tables.files import text_rows
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.plan.pydantic_base import validate


def simple(column: dict[str, Any], **changes: Any) -> Schema:
    facts = {"columns": {"a": column, "y": {"type": "boolean"}}, "target": "y", "unit": "row"} | changes
    return validate(Schema, facts, "schema")


def read(folder: Path, values: list[str], column: dict[str, Any], **changes: Any) -> list[float]:
    """What becomes of a column of these values."""
    with (folder / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "y"], *([value, "yes"] for value in values)])
    encoder = Encoder(simple(column, **changes))
    (block,) = blocks(folder / "t.csv", encoder.schema, ["a", "y"])
    return [round(float(value), 6) for value in encoder.encode(block).inputs[:, 0]]


AMOUNT = {"type": "number", "low": 0, "high": 1000}


def test_limits(tmp_path: Path) -> None:
    values = ["<500", "> 250", "≤100", "750"]
    assert read(tmp_path, values, AMOUNT | {"censored": "bound"}) == [0.5, 0.25, 0.1, 0.75]
    assert read(tmp_path, values, AMOUNT | {"censored": "missing"}) == [-1, -1, -1, 0.75]
    for column in (AMOUNT, AMOUNT | {"censored": "refuse"}):
        with pytest.raises(
            InputError, match=r"row 1, column 'a': '<500' is a limit and no number; say censored: bound"
        ):
            read(tmp_path, values, column)
    assert "censored: bound" in draft(tmp_path / "t.csv")
    with pytest.raises(InputError, match="'<much' is"):
        read(tmp_path, ["<much"], AMOUNT | {"censored": "bound"})


@pytest.mark.parametrize("value", ["1.5", "12.34", "1.2345", "1.234.5", ".5"])
def test_a_mark_in_the_wrong_place_is_no_number(value: str, tmp_path: Path) -> None:
    """1.5 is not 15 where points part thousands, and is not read as 1.5 where the decimal mark is a comma."""
    for marks in ({"decimal": ",", "thousands": "."}, {"decimal": ","}):
        with pytest.raises(InputError, match=f"'{value}' has a point, and the decimal mark is ','"):
            read(tmp_path, [value], AMOUNT, csv=marks)
    assert read(tmp_path, ["1.000", "500,5"], AMOUNT, csv={"decimal": ",", "thousands": "."}) == [1.0, 0.5005]


def test_codes_that_are_numbers(tmp_path: Path) -> None:
    column = {"type": "category", "categories": [1, 2], "missing": "refuse", "unseen": "refuse"}
    assert read(tmp_path, ["1", "1.0", "01", "2.00"], column | {"numeric": True}) == [0.25, 0.25, 0.25, 0.75]
    with pytest.raises(InputError, match=r"'1\.0'"):
        read(tmp_path, ["1", "1.0"], column)


def test_every_fault_of_a_file_at_once(tmp_path: Path) -> None:
    """By row, each with its value, and a row of another length by its line alone; and no more than 20."""
    path = tmp_path / "t.csv"
    path.write_text("a,y\n1,yes\nx,yes\n2,perhaps\n3\n,no\nnan,no\n9,no,1\n")
    encoder = Encoder(simple(AMOUNT | {"missing": "refuse"}))
    with pytest.raises(InputError) as caught:
        public_table(path, encoder)
    assert str(caught.value).splitlines() == [
        f"{path}: 6 problems",
        "  line 5 has 1 value instead of 2; give it 2, or check the delimiter (',') and the quotes",
        "  line 8 has 3 values instead of 2; give it 2, or check the delimiter (',') and the quotes",
        "  row 2, column 'a': 'x' is not a number",
        "  row 3, column 'y': the value is none of the declared categories ('perhaps')",
        "  row 4, column 'a': the value is missing; missing: drop, in a schema, leaves such rows out",
        "  row 5, column 'a': 'nan' is not a finite number; if it stands for a missing value, say missing: ['nan'] in "
        "the schema",
    ]
    path.write_text("a,y\n" + "".join(f"x{i},yes\n" for i in range(100)))
    with pytest.raises(InputError, match="the first 20 problems") as caught:
        public_table(path, encoder)
    assert str(caught.value).count("\n") == 20


@pytest.mark.parametrize("newlines", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_of_another_length_are_named_by_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newlines: bool, end: str
) -> None:
    """Beside empty lines, values of several lines, and in any block; what the rows say is not shown."""
    monkeypatch.setattr(text_rows, "BLOCK", 48)
    ill, sick = (f'"ill{end}{end}Ann Smith",yes', f"5,no,secret{end}") if newlines else ("8,no", "5,no,secret")
    rows = ["# made", "", "a,y", "1,yes", "", "secret", ill, '"9","yes",', "", *["2,no"] * 20, "", sick, '"5"']
    text = end.join(rows)
    path = tmp_path / "t.csv"
    path.write_text(text, newline="")
    format = CsvFormat(newlines=newlines, comment="#")
    with pytest.raises(InputError) as caught:
        public_table(path, Encoder(simple({"type": "text"}).model_copy(update={"csv": format})))
    wrong = ["secret", '"9","yes",', "5,no,secret", '"5"']
    lines = [text[: text.index(f"{end}{row}") + len(end)].count(end) + 1 for row in wrong]
    said = "value instead of 2; give it 2, or check the delimiter (',') and the quotes"
    assert str(caught.value).splitlines() == [
        f"{path}: 4 problems",
        f"  line {lines[0]} has 1 {said}",
        f"  line {lines[1]} has 3 {said.replace('value', 'values')}",
        f"  line {lines[2]} has 3 {said.replace('value', 'values')}",
        f"  line {lines[3]} has 1 {said}",
    ]


def test_a_fault_of_several_rows_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,perhaps\n1,yes\n" * 100 + "1,no\n")
    with pytest.raises(InputError) as caught:
        public_table(path, Encoder(simple(AMOUNT)))
    said = "column 'y': the value is none of the declared categories ('perhaps')"
    assert str(caught.value) == f"{path}: rows 1, 3, 5 and more, {said}"
    path.write_text("a,y\n" + "1,perhaps\n" * 50 + "2\n")
    with pytest.raises(InputError) as caught:
        public_table(path, Encoder(simple(AMOUNT)))
    assert str(caught.value).splitlines() == [
        f"{path}: 2 problems",
        "  line 52 has 1 value instead of 2; give it 2, or check the delimiter (',') and the quotes",
        f"  rows 1, 2, 3 and more, {said}",
    ]


def test_a_table_full_of_faults_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_rows, "BLOCK", 64)
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,perhaps\n" * 2000 + "x,yes\n")
    with pytest.raises(InputError, match=r"rows 1, 2, 3 and more, column 'y': [^\n]*$"):
        public_table(path, Encoder(simple(AMOUNT)))
