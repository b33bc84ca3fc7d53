"""Numbers such as 1.234, whose mark may separate thousands or be the decimal one: what settles it, and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from discreet.cli.options.dialect import Dialect
from discreet.data.tables import Encoder, Schema, public_table
from discreet.data.tables.drafting.draft import draft
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.plan.pydantic_base import validate


def table(folder: Path, columns: dict[str, list[str]], delimiter: str = ";") -> Path:
    path = folder / "t.csv"
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows))
    return path


CODES = {"code": ["1,5", "2,5", "3,5"], "dose": ["1.234", "-1.750", ">2.500"], "age": ["30", "31", "32"]}


def test_thousands_that_only_another_column_tells_are_said_beside_those_they_concern(tmp_path: Path) -> None:
    lines = draft(table(tmp_path, CODES)).splitlines()
    places = [place for place, line in enumerate(lines) if "CAREFUL" in line]
    assert lines[places[0] : places[0] + 4] == [
        "  # CAREFUL: every '.' in dose stands before three digits, and is read as separating thousands",
        "  # (1.234 is 1234), only because the decimal mark in code is ','.",
        "  # If it is the decimal mark, write decimal: '.' and no thousands in csv, above.",
        "  dose: {type: number, low: FILL_IN, high: FILL_IN, censored: bound}",
    ]
    assert len(places) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"paid": ["1.234.567", "1", "2"]},
        {"paid": ["1.234,50", "1", "2"]},
        {"dose": ["1.234", "1.750.000", "2.500"]},
        {"dose": ["1 234", "1 750", "2 500"]},
    ],
)
def test_thousands_that_a_column_shows_itself_need_no_word(more: dict[str, list[str]], tmp_path: Path) -> None:
    found = draft(table(tmp_path, CODES | more))
    assert "thousands: " in found
    assert "CAREFUL" not in found


def test_thousands_that_were_told_need_no_word(tmp_path: Path) -> None:
    told = CsvFormat(delimiter=";", decimal=",", thousands=".")
    assert "CAREFUL" not in draft(table(tmp_path, CODES), told, ())


def schema(code: dict[str, Any], **csv: Any) -> Schema:
    columns = {"code": code, "dose": {"type": "number", "low": 0, "high": 5}, "ill": {"type": "boolean"}}
    facts = {"columns": columns, "target": "ill", "unit": "row", "csv": {"delimiter": ";", **csv}}
    return validate(Schema, facts, "schema")


@pytest.mark.parametrize("header", [True, False])
def test_codes_do_not_tell_how_the_numbers_of_a_public_table_are_written(header: bool, tmp_path: Path) -> None:
    path = table(tmp_path, {"code": ["1,5", "2,5"], "dose": ["1.250", "2.500"], "ill": ["yes", "no"]})
    if not header:
        path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    codes = {"type": "category", "categories": ["1,5", "2,5"]}
    found = public_table(path, Encoder(schema(codes, header=header))).inputs[:, 1]
    torch.testing.assert_close(found, torch.tensor([0.25, 0.5]))


def test_numbers_tell_how_others_are_written(tmp_path: Path) -> None:
    """1.250 is 1250, which is clipped, where another number of the table has a decimal comma."""
    path = table(tmp_path, {"code": ["1,5", "2,5"], "dose": ["1.250", "2.500"], "ill": ["yes", "no"]})
    numbers = {"type": "number", "low": 0, "high": 5}
    found = public_table(path, Encoder(schema(numbers))).inputs
    torch.testing.assert_close(found, torch.tensor([[0.3, 1.0], [0.5, 1.0]]))


@pytest.mark.parametrize(
    ("thousands", "amounts"), [(".", ["1.234", "2.345"]), (".", ["1.234,5", "12"]), ("comma", ["1,234", "5,678"])]
)
def test_thousands_that_are_told_alone_leave_the_other_mark_to_decimals(
    thousands: str, amounts: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age;paid\n" + "".join(f"{30 + n};{amount}\n" for n, amount in enumerate(amounts)))
    found = yaml.safe_load(draft(path, *Dialect(thousands=thousands).format()))
    mark = "," if thousands == "comma" else thousands
    assert found["csv"].get("decimal", ".") == {".": ",", ",": "."}[mark]
    assert found["csv"]["thousands"] == mark
    assert found["columns"]["paid"]["type"] == "number"
