"""A file that is called a table of text and is none is named for what it is: no draft shows what is in it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.cli.app import run


def arrays(**named: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, **named)
    return file.getvalue()


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"age": [str(age) for age in range(20, 90)]}), file)
    return file.getvalue()


KINDS = {
    "numpy": (b"\x93NUMPY\x01\0v\0{'descr': '<f8'}\n" + bytes(32), "an array of NumPy; save a table as .csv"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(range(200)), "an image; save a table as .csv"),
    "jpeg": (b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(range(200)), "an image; save a table as .csv"),
    "pdf": (b"%PDF-1.4\n1 0 obj\n", "a PDF document; save a table as .csv"),
    "database": (b"SQLite format 3\0" + bytes(84), "a database; export the table as .csv"),
    "old sheet": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504), "an old spreadsheet; name it .xls"),
    "parquet": (parquet(), "a Parquet file; name it .parquet"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("command", [["schema"], ["schema", "--encoding", "utf-8"]])
def test_it_is_named(command: list[str], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, said = KINDS[kind]
    (tmp_path / "t.csv").write_bytes(content)
    assert run([*command, str(tmp_path / "t.csv")]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"discreet: {tmp_path / 't.csv'} is {said}")


@pytest.mark.parametrize("names", [["x"], ["x", "y"]])
def test_so_are_packed_arrays(names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_bytes(arrays(**dict.fromkeys(names, np.zeros((2, 3)))))
    assert run(["schema", str(tmp_path / "t.csv")]) == 2
    assert "t.csv holds arrays of NumPy; save a table as .csv or .parquet" in capsys.readouterr().err


def test_a_column_may_be_called_like_the_mark_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("PAR1,PAR2\n1,2\n3,4\n")
    assert run(["schema", str(tmp_path / "t.csv")]) == 0
    assert "PAR1: {type: " in capsys.readouterr().out
