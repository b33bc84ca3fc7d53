"""Files as they are: however one table is written, the same rows are read, or one line says what cannot be read."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from discreet.core.errors import InputError
from discreet.data.tables import Encoder, Schema, blocks, public_table
from discreet.data.tables.drafting.draft import FOUND_OUT, draft
from discreet.data.tables.files import text_rows
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.dialect import found_format
from discreet.data.tables.files.reading import first_rows
from discreet.plan.pydantic_base import validate

NAMES = ["Größe [cm]", "Gewicht", "Aufnahme", "Stadt", "krank"]
ROWS: list[tuple[float, float, str, str, str]] = [
    (180.5, 1234.5, "2023-01-31", "Köln", "ja"),
    (165.25, 980.0, "2023-12-01", 'Bad "Ems"', "nein"),
    (171.0, 12345.75, "2024-02-29", "Kiel, Nord", "ja"),
    (0.5, 1000.5, "2022-07-04", "Köln; Süd", "nein"),
]
COLUMNS: dict[str, Any] = {
    "Größe [cm]": {"type": "number", "low": 0, "high": 250},
    "Gewicht": {"type": "number", "low": 0, "high": 20000},
    "Aufnahme": {"type": "date", "low": "2020-01-01", "high": "2025-01-01"},
    "Stadt": {"type": "category", "categories": ["Köln", 'Bad "Ems"', "Kiel, Nord", "Köln; Süd"]},
    "krank": {"type": "boolean"},
}


def schema_of(found: dict[str, Any]) -> Schema:
    """What the draft says of the file, with the ranges filled in."""
    columns = {name: facts | {key: found["columns"][name][key] for key in ("format",) if key in found["columns"][name]}
               for name, facts in COLUMNS.items()}  # fmt: skip
    facts = {"columns": columns, "target": "krank", "unit": "row", "csv": found.get("csv", {}), "population": 4}
    return validate(Schema, facts, "schema")


def number(value: float, decimal: str, thousands: str) -> str:
    return f"{value:,.2f}".replace(",", "T").replace(".", decimal).replace("T", thousands)


def written(delimiter: str, decimal: str, thousands: str, dates: str, end: str) -> str:
    file = io.StringIO()
    lines = csv.writer(file, delimiter=delimiter, lineterminator=end)
    lines.writerow(NAMES)
    for height, weight, day, town, ill in ROWS:
        year, month, date = day.split("-")
        when = dates.replace("%Y", year).replace("%m", month).replace("%d", date)
        lines.writerow([number(height, decimal, ""), number(weight, decimal, thousands), when, town, ill])
    return file.getvalue()


def plainly(folder: Path) -> torch.Tensor:
    (folder / "plain.csv").write_text(written(",", ".", "", "%Y-%m-%d", "\n"))
    return public_table(folder / "plain.csv", Encoder(schema_of({"columns": COLUMNS}))).inputs


ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"]
MARKS = [(",", ".", ""), (";", ",", "."), (";", ",", ""), ("\t", ".", ","), ("|", ",", " "), (";", ".", "'")]
SHAPES = [("%Y-%m-%d", "\n"), ("%d.%m.%Y", "\r\n"), ("%m/%d/%Y", "\r")]
DIALECTS = [*itertools.product(ENCODINGS, MARKS, SHAPES)]
"""108 ways to write one table."""


@pytest.mark.parametrize(("encoding", "marks", "shape"), DIALECTS, ids=str)
def test_a_table_is_read_however_it_is_written(
    encoding: str, marks: tuple[str, str, str], shape: tuple[str, str], tmp_path: Path
) -> None:
    """By what the draft found out alone; no option says anything."""
    path = tmp_path / "t.csv"
    path.write_bytes(written(*marks, *shape).encode(encoding))
    found = yaml.safe_load(draft(path))
    assert set(found["columns"]) == set(NAMES)
    rows = public_table(path, Encoder(schema_of(found)))
    torch.testing.assert_close(rows.inputs, plainly(tmp_path))
    assert rows.targets.tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("marks", MARKS)
def test_public_and_new_rows_may_be_written_otherwise(marks: tuple[str, str, str], tmp_path: Path) -> None:
    """The schema is that of a file with commas and points; the file says itself that it is another."""
    path = tmp_path / "t.csv"
    path.write_bytes(written(*marks, "%Y-%m-%d", "\r\n").encode("cp1252"))
    rows = public_table(path, Encoder(schema_of({"columns": COLUMNS})))
    torch.testing.assert_close(rows.inputs, plainly(tmp_path))


def test_names_are_shown_as_the_file_writes_them_where_one_is_missing(tmp_path: Path) -> None:
    """The schema is that of a file in cp1252; read like that, the names of one in UTF-8 would be another's."""
    path = tmp_path / "t.csv"
    path.write_text("Größe [cm];Gewicht;Aufnahme;krank\n", encoding="utf-8")
    schema = schema_of({"columns": COLUMNS, "csv": {"encoding": "cp1252", "delimiter": ";"}})
    with pytest.raises(InputError, match=r"no column 'Stadt', .* it has Größe \[cm\], Gewicht, Aufnahme, krank$"):
        public_table(path, Encoder(schema))


@pytest.mark.parametrize("packed", ["gz", "zip"])
def test_a_packed_file(packed: str, tmp_path: Path) -> None:
    path, content = tmp_path / f"t.csv.{packed}", written(";", ",", ".", "%d.%m.%Y", "\n").encode("utf-16")
    if packed == "gz":
        path.write_bytes(gzip.compress(content))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("table.csv", content)
    rows = public_table(path, Encoder(schema_of(yaml.safe_load(draft(path)))))
    torch.testing.assert_close(rows.inputs, plainly(tmp_path))


def test_a_zip_with_two_files_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with pytest.raises(InputError, match="has 2 files in it"):
        draft(tmp_path / "t.zip")


def test_stata(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"age": [20.0, 30.5], "ward": ["A", "B"]}).to_stata(tmp_path / "t.dta", write_index=False)
    found = yaml.safe_load(draft(tmp_path / "t.dta"))
    assert {name: facts["type"] for name, facts in found["columns"].items()} == {"age": "number", "ward": "category"}
    columns = {"age": {"type": "number", "low": 0, "high": 50}, "ward": {"type": "category", "categories": ["A", "B"]}}
    rows = public_table(
        tmp_path / "t.dta", Encoder(validate(Schema, {"columns": columns, "target": "ward", "unit": "row"}, "schema"))
    )
    torch.testing.assert_close(rows.inputs, torch.tensor([[0.4], [0.61]]))


def test_what_a_file_of_a_spreadsheet_needs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")

    def lacking(path: Path) -> None:
        raise ImportError("openpyxl")

    monkeypatch.setattr(pandas, "ExcelFile", lacking)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match="pip install pandas openpyxl; or save the table"):
        draft(tmp_path / "t.xlsx")


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


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("block", [16, 17, 40, 1000])
def test_rows_do_not_depend_on_where_blocks_end(
    block: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quoted values with line breaks and quotes too, and an unclosed quote in the middle of a value."""
    values = ["a", f'"x{end}y"', '"say ""hi"""', 'five"', "é", '"z,"']
    path = tmp_path / "t.csv"
    path.write_bytes(end.join(["a,b", *(f"{value},{place}" for place, value in enumerate(values * 3))]).encode())
    columns = {"a": {"type": "text"}, "b": {"type": "boolean"}}
    schema = validate(Schema, {"columns": columns, "target": "b", "unit": "row", "csv": {"newlines": True}}, "schema")
    whole = [row for part in blocks(path, schema, ["a", "b"]) for row in part.to_pylist()]
    assert [row["a"] for row in whole] == ["a", f"x{end}y", 'say "hi"', 'five"', "é", "z,"] * 3
    monkeypatch.setattr(text_rows, "BLOCK", block)
    assert [row for part in blocks(path, schema, ["a", "b"]) for row in part.to_pylist()] == whole


def refused(path: Path) -> str:
    """Why there is no draft of a file; "" if there is one."""
    try:
        draft(path)
    except InputError as error:
        return str(error)
    return ""


FUZZ = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXT = st.text(st.sampled_from('a1ü,;\t|"\n\r.- <\x00\u2028\ufeff'), max_size=60)


@FUZZ
@given(st.one_of(st.binary(max_size=80), TEXT.map(str.encode), TEXT.map(lambda text: text.encode("utf-16"))))
@example(b"\xff\xfe")
@example(b"PK\x03\x04")
@example(b"\x1f\x8b\x08")
@example(b'a,b\n"1,2\n3,4\n')
@example(b'"!\n!"\r\x00')
@example(b';"!\n!"\r\x00')
def test_no_file_ends_in_a_traceback(tmp_path: Path, content: bytes) -> None:
    """A draft, or one line; and what a draft has read, its own format reads as well."""
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    said = refused(path)
    if said:
        assert str(path) in said
        assert "\n" not in said
        return
    found = yaml.safe_load(draft(path))
    csv_format = validate(CsvFormat, found.get("csv", {}), "csv")
    assert list(found["columns"]) == list(first_rows(path, csv_format).column_names)
    assert found_format(path, csv_format, FOUND_OUT) == csv_format
