"""Small files that would take all time or memory: each is one line, before it is unpacked."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from discreet.core.errors import InputError
from discreet.data import packed
from discreet.data.packed import read_arrays
from discreet.data.sets.arrays import npz
from discreet.data.sets.mnist import read_idx
from discreet.data.tables.files.csv_format import CsvFormat
from discreet.data.tables.files.reading import MOST_COLUMNS, first_rows
from discreet.data.tables.files.text_rows import text_rows
from discreet.prediction.row_files import read_rows


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may unpack to 1 MiB, or to a hundred times their size."""
    monkeypatch.setattr(packed, "LARGEST", 1 << 20)


def header(shape: tuple[int, ...], kind: str = "<f4") -> bytes:
    content = io.BytesIO()
    facts = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(content, facts)
    return content.getvalue()


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packer:
        for name, content in members.items():
            packer.writestr(f"{name}.npy", content)
    return path


def test_arrays_that_unpack_to_too_much_are_refused(tmp_path: Path) -> None:
    zeros = header((1 << 20, 4)) + bytes(1 << 24)
    path = archive(tmp_path / "x.npz", x_train=zeros, y_train=zeros)
    assert path.stat().st_size < 1 << 17
    for read in (npz, lambda path: read_rows(path, None)):
        with pytest.raises(InputError, match="unpacks to more than"):
            read(path)


@pytest.mark.parametrize("shape", [(2**40, 2), (2**62, 2**62), (5,), (-1, 3)])
def test_a_header_that_promises_more_than_the_file_has_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    plain = tmp_path / "x.npy"
    plain.write_bytes(header(shape) + bytes(12))
    packed_up = archive(tmp_path / "x.npz", x_train=plain.read_bytes())
    for path in (plain, packed_up):
        with pytest.raises(InputError, match="fewer bytes"):
            read_arrays(path)
        with pytest.raises(InputError, match="fewer bytes"):
            read_rows(path, None)


@pytest.mark.parametrize("kind", ["<f4", "<f8", "|u1", "<i8", "|b1", "<U3"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)])
def test_plain_arrays_are_read_as_numpy_does(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    value = np.arange(6).astype(kind)[: int(np.prod(shape, dtype=int))].reshape(shape)
    np.save(tmp_path / "one.npy", value)
    np.savez(tmp_path / "two.npz", a=value, b=np.asfortranarray(value))
    np.savez_compressed(tmp_path / "three.npz", a=value, b=np.asfortranarray(value))
    found = [read_arrays(tmp_path / "one.npy")[""]]
    for name in ("two.npz", "three.npz"):
        found += read_arrays(tmp_path / name).values()
        assert read_arrays(tmp_path / name, ["b"]).keys() == {"b"}
    assert len(found) == 5
    for one in found:
        assert one.dtype == value.dtype
        np.testing.assert_array_equal(one, value)


def test_pickled_arrays_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x_train=np.array([object()]), y_train=np.zeros(1))
    with pytest.raises(InputError, match="file of plain arrays"):
        npz(tmp_path / "x.npz")


@pytest.mark.parametrize("ending", ["gz", "bz2", "zip"])
def test_a_packed_table_is_read_up_to_the_limit(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.csv.{ending}"
    for times, fits in ((3, True), (9, False)):
        content = b"a,b\n" + b"1,2\n" * (times << 16)
        if ending == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packer:
                packer.writestr("t.csv", content)
        else:
            path.write_bytes((gzip if ending == "gz" else bz2).compress(content))
        assert path.stat().st_size * packed.TIMES < len(content)
        if fits:
            assert sum(len(rows.data) for rows in text_rows(path, CsvFormat())) == len(content)
        else:
            with pytest.raises(InputError, match="unpacks to more than"):
                list(text_rows(path, CsvFormat()))


def test_a_packed_set_of_images_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 1, 1, 0, 0, 0]) + bytes(1 << 24)))
    with pytest.raises(InputError, match="unpacks to more than"):
        read_idx(path)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_has_a_public_number_of_columns(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"wide.{ending}"
    for more in (0, 1):
        names = [f"c{number}" for number in range(MOST_COLUMNS + more)]
        if ending == "csv":
            path.write_text("\n".join([",".join(names), ",".join("1" for _ in names)]) + "\n")
        else:
            write_table(pa.table({name: [1] for name in names}), path)
        if more:
            with pytest.raises(InputError, match="10,001 columns, of which at most 10,000"):
                first_rows(path, CsvFormat())
        else:
            assert first_rows(path, CsvFormat()).num_columns == MOST_COLUMNS
