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

from discreet.cli.app import run
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


FUZZ = settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--delimiter", "ab"], "--delimiter is one mark, such as , or ; or tab; got 'ab'"),
        (["--decimal", "x"], "--decimal is one mark, . or ,; got 'x'"),
        (["--thousands", "0"], "--thousands is one mark, such as . or , or space, or none; got '0'"),
        (["--delimiter", ""], "--delimiter is one mark, such as , or ; or tab; got ''"),
    ],
)
def test_marks_that_are_none(options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    assert run(["schema", str(tmp_path / "t.csv"), *options]) == 2
    assert capsys.readouterr().err == f"discreet: {said}\n"
