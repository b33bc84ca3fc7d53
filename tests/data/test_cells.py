"""Tables whose cells have types of their own: JSON lines and spreadsheets. No cell decides how others are read."""

from __future__ import annotations

import datetime
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from discreet.core.errors import InputError
from discreet.data.tables import Encoder, Schema, public_table
from discreet.data.tables.drafting.draft import draft
from discreet.data.tables.files.cells import cell_text
from discreet.plan.pydantic_base import validate

COLUMNS = {
    "income": {"type": "number", "low": 0, "high": 10, "missing": "flag"},
    "level": {"type": "category", "categories": ["1", "2.5", "true", "A"], "unseen": "other", "missing": "flag"},
    "member": {"type": "category", "categories": ["true", "false"], "missing": "flag"},
    "code": {"type": "category", "categories": ["01069", "1069", "x"], "unseen": "other", "missing": "flag"},
    "day": {"type": "date", "low": "2000-01-01", "high": "2030-01-01", "missing": "flag"},
    "since": {"type": "date", "low": "2000-01-01", "high": "2030-01-01", "missing": "flag"},
    "wave": {"type": "category", "categories": ["2024-01-31", "2024-02-29", "first"], "missing": "flag"},
    "key": {"type": "category", "categories": ["100000000000000000", "7"], "unseen": "other", "missing": "flag"},
    "sick": {"type": "boolean"},
}
JANUARY, FEBRUARY = datetime.datetime(2024, 1, 31), datetime.datetime(2024, 2, 29)
NEVER = datetime.datetime(1900, 1, 1)
"""Stands for a missing value here."""

ROWS: list[dict[str, Any]] = [
    {
        "income": 1.5,
        "level": 2.5,
        "member": True,
        "code": "01069",
        "day": JANUARY,
        "since": FEBRUARY,
        "wave": JANUARY,
        "key": "100000000000000000",
        "sick": True,
    },
    {
        "income": 2,
        "level": 1,
        "member": False,
        "code": "1069",
        "day": FEBRUARY,
        "since": NEVER,
        "wave": FEBRUARY,
        "key": 7,
        "sick": False,
    },
    {
        "income": 7e-7,
        "level": True,
        "member": True,
        "code": "1069",
        "day": None,
        "since": JANUARY,
        "wave": NEVER,
        "key": 7.0,
        "sick": "no",
    },
]
ODD: list[dict[str, Any]] = [
    {
        "income": "3",
        "level": "A",
        "member": None,
        "code": "x",
        "day": "2024-03-01",
        "since": None,
        "wave": "first",
        "key": None,
        "sick": "yes",
    },
    {"income": None, "level": None, "sick": 1},
    {"sick": True, "level": "true"},
    {"level": ["A"], "sick": 0.0},
]


def encoder(**csv: str) -> Encoder:
    columns = COLUMNS | {"since": COLUMNS["since"] | ({"format": csv.pop("format")} if "format" in csv else {})}
    if csv.get("decimal") == ",":
        columns = columns | {"level": COLUMNS["level"] | {"categories": ["1", "2,5", "true", "A"]}}
    facts = {
        "columns": columns,
        "target": "sick",
        "unit": "row",
        "csv": csv,
        "missing": ["", "1900-01-01", "01.01.1900"],
    }
    return Encoder(validate(Schema, facts, "schema"))


def json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(row, default=lambda day: day.date().isoformat()) for row in rows) + "\n")
    return path


def spreadsheet(path: Path, rows: list[dict[str, Any]]) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book, names = openpyxl.Workbook(), list(COLUMNS)
    book.active.append(names)
    for row in rows:
        cells = (row.get(name) for name in names)
        book.active.append([str(cell) if isinstance(cell, list) else cell for cell in cells])
    book.save(path)
    return path


@pytest.mark.parametrize(
    "csv", [{}, {"decimal": ",", "thousands": "."}, {"format": "%Y-%d-%m"}, {"format": "%d.%m.%Y"}]
)
@pytest.mark.parametrize("kind", ["json lines", "spreadsheet"])
def test_no_row_decides_how_another_is_read(tmp_path: Path, csv: dict[str, str], kind: str) -> None:
    def read(rows: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
        if kind == "json lines":
            if "format" in csv:
                rows = [
                    row | {"since": day and day.strftime(csv["format"])} for row in rows for day in [row.get("since")]
                ]
            path = json_lines(tmp_path / "t.jsonl", rows)
        else:
            path = spreadsheet(tmp_path / "t.xlsx", rows)
        found = public_table(path, encoder(**csv))
        return found.inputs, found.targets

    whole, odd = list(range(len(ROWS))), list(range(len(ROWS), len(ROWS + ODD)))
    inputs, targets = read(ROWS + ODD)
    for chosen in (whole, odd, odd + whole, *([*whole, one] for one in odd), *([0, one] for one in whole)):
        some, some_targets = read([(ROWS + ODD)[one] for one in chosen])
        torch.testing.assert_close(some, inputs[chosen], rtol=0, atol=0)
        assert some_targets.tolist() == targets[chosen].tolist()
    torch.testing.assert_close(inputs[:4, 0] * 10, torch.tensor([1.5, 2.0, 7e-7, 3.0]))
    assert targets.tolist() == [1, 0, 0, 1, 1, 1, 0]


def test_json_lines_have_a_draft(tmp_path: Path) -> None:
    rows = [{"age": 20, "ward": "A", "ill": True, "since": "2024-01-31"}, {"age": 30, "ward": "B", "ill": False}]
    found = yaml.safe_load(draft(json_lines(tmp_path / "t.jsonl", rows)))
    kinds = {name: facts["type"] for name, facts in found["columns"].items()}
    assert kinds == {"age": "number", "ward": "category", "ill": "boolean", "since": "date"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"a": 1}\n{"a"', "line 2 of t.jsonl is not JSON; give each row a line of its own, as {"),
        ('[\n {"a": 1}\n]', "line 1 of t.jsonl is not JSON; give each row a line of its own"),
        ("[1]\n", "line 1 of t.jsonl is no object with fields"),
        ("\n\n", "is empty; give a table with at least one row"),
        ('{"a": "\\ud800"}\n', "half of a surrogate pair"),
        (b'{"a": "\xff"}\n', "is not in UTF-8; save it so"),
    ],
)
def test_what_is_no_table_is_said(tmp_path: Path, text: str | bytes, fault: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=fault) as caught:
        draft(path)
    assert "\n" not in str(caught.value)


def test_how_cells_are_written() -> None:
    cells = [
        True,
        1,
        1.0,
        1e300,
        0.5,
        float("nan"),
        None,
        "",
        {"a": ["é"]},
        datetime.date(2024, 1, 31),
        10**30,
        JANUARY,
    ]
    expected = [
        "true",
        "1",
        "1",
        "1e+300",
        "0,5",
        None,
        None,
        "",
        '{"a": ["é"]}',
        "2024-01-31",
        "1" + "0" * 30,
        "2024-01-31",
    ]
    assert [cell_text(one, ",") for one in cells] == expected


def visits(high: int, *missing: str) -> Encoder:
    """Of a table with a number from 0 to `high`, and the texts that stand for a missing one."""
    number = {"type": "number", "low": 0, "high": high, "missing": "flag"}
    columns = {"visits": number, "y": {"type": "boolean"}}
    return Encoder(validate(Schema, {"columns": columns, "target": "y", "unit": "row", "missing": missing}, "schema"))


def test_values_of_which_some_have_a_label(tmp_path: Path) -> None:
    """In Stata's files 99 may be labelled "none" among numbers, and no label need occur."""
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "t.dta"
    for given, expected in (([3, 99, 5], [0.3, -1.0, 0.5]), ([3, 4, 5], [0.3, 0.4, 0.5])):  # -1 where it is missing
        frame = pandas.DataFrame({"visits": given, "y": [0, 1, 1]})
        frame.to_stata(path, write_index=False, value_labels={"visits": {99: "none"}})
        found = public_table(path, visits(10, "none")).inputs
        torch.testing.assert_close(found.flatten(), torch.tensor(expected))


@pytest.mark.parametrize("mark", ["99", "99.0", "0099"])
def test_a_missing_cell_of_a_stata_file_changes_no_other(tmp_path: Path, mark: str) -> None:
    """With one, pandas makes fractions of whole numbers; a mark stands for a number as it is written: 99."""
    pandas = pytest.importorskip("pandas")
    path = tmp_path / "t.dta"
    for last in (5, None):
        frame = pandas.DataFrame({"visits": pandas.array([3, 99, last], dtype="Int32"), "y": [0, 1, 1]})
        frame.to_stata(path, write_index=False, version=118)
        found = public_table(path, visits(100, "", mark)).inputs
        torch.testing.assert_close(found.flatten()[:2], torch.tensor([0.03, -1.0 if mark == "99" else 0.99]))


def test_a_row_beyond_the_names_of_a_spreadsheet_is_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "b"], [1, 2], [3, 4, 5]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(
        InputError, match=r"a row with more cells than the first; give every column a name, or empty them$"
    ):
        draft(tmp_path / "t.xlsx")
    book.create_sheet("Data")
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="or put the sheet with the table before 'Sheet', which is read"):
        draft(tmp_path / "t.xlsx")


@pytest.mark.parametrize("text", ["2024-01-05", None])
def test_days_are_in_the_format_of_the_schema_whatever_the_others_are(tmp_path: Path, text: str | None) -> None:
    """Among texts, too, a day of a spreadsheet is no day and month swapped, and may stand for a missing value."""
    openpyxl = pytest.importorskip("openpyxl")
    columns = {
        "d": {"type": "date", "low": "2000-01-01", "high": "2030-01-01", "format": "%Y-%d-%m", "missing": "flag"}
    }
    facts = {"columns": columns | {"y": {"type": "boolean"}}, "target": "y", "unit": "row", "missing": ["1900-01-01"]}
    book = openpyxl.Workbook()
    for row in (
        ["d", "y"],
        [datetime.datetime(2024, 1, 5, 7), 1],
        [NEVER, 0],
        [text or datetime.datetime(2024, 5, 1), 0],
    ):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    found = public_table(tmp_path / "t.xlsx", Encoder(validate(Schema, facts, "schema"))).inputs.flatten().tolist()
    days = [(datetime.date(2024, *day) - datetime.date(2000, 1, 1)).days for day in ((1, 5), (5, 1))]
    whole = (datetime.date(2030, 1, 1) - datetime.date(2000, 1, 1)).days
    assert found == pytest.approx([days[0] / whole, -1.0, days[1] / whole])


def test_names_that_are_equal_as_texts_are_refused(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in ([1, "1"], [2, 3]):
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="two columns '1'; give each a name of its own"):
        draft(tmp_path / "t.xlsx")


def test_packed_json_lines_are_no_csv(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n'))
    with pytest.raises(InputError, match="is no table that can be read"):
        draft(tmp_path / "t.jsonl.gz")
