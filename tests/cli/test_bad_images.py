"""Ways to bring images that cannot be trained on: each one clear line, exit 2, nothing written, nothing charged."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.data.tables import Encoder, private_table, public_table
from discreet.data.tables.categories import Category
from discreet.jobs.tables.image_or_text_schema import schema_of_column, schema_of_folder
from discreet.jobs.tables.table_facts import TableFacts

BUDGET = ["--epsilon", "3", "--delta", "1e-3", "--population", "8", "--out", "model"]


def png(path: str, mode: str = "L", size: tuple[int, int] = (8, 8)) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path)


def bomb(path: str, width: int, height: int) -> None:
    """A small file that says that it has many pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def cut(path: str) -> None:
    Image.fromarray(np.random.Generator(np.random.PCG64(0)).integers(0, 255, (64, 64), np.uint8)).save(path)
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])


def many(path: str) -> None:
    Image.new("L", (8, 8)).save(path, save_all=True, append_images=[Image.new("L", (8, 8), 9)])


def nested() -> None:
    png("photos/cat/old/x.png")


def looped() -> None:
    os.symlink("..", "photos/cat/loop")


def only(*names: str) -> None:
    for path in sorted(Path("photos").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    for name in names:
        png(f"photos/{name}")


# name: (what is wrong with photos/, what the line says)
FOLDERS: dict[str, tuple[Callable[[], object], str]] = {
    "no image at all": (lambda: Path("photos/cat/x.png").write_text("hello"), r"cat/x.png: is no image"),
    "an empty file": (lambda: Path("photos/cat/x.png").write_bytes(b""), r"cat/x.png: is an empty file"),
    "cut off": (lambda: cut("photos/cat/x.png"), r"cat/x.png: is a broken image"),
    "a bomb": (lambda: bomb("photos/cat/x.png", 60_000, 60_000), r"cat/x.png: has more than 64 million pixels"),
    "a smaller bomb": (lambda: bomb("photos/cat/x.png", 9_000, 9_000), r"has 9000 x 9000 pixels, more than 64 million"),
    "numbers beyond bytes": (lambda: png("photos/cat/x.tif", "F"), r"x.tif: has the mode F; save it as grey or RGB"),
    "inks": (lambda: png("photos/cat/x.jpg", "CMYK"), r"x.jpg: has the mode CMYK"),
    "a film": (lambda: many("photos/cat/x.tiff"), r"x.tiff: has 2 frames; save one image to a file"),
    "a folder for a file": (lambda: os.mkfifo("photos/cat/x.png"), r"cat/x.png: is no file"),
    "text beside images": (lambda: Path("photos/cat/notes.txt").write_text("x"), r"notes.txt is no image by its name"),
    "a file beside the classes": (lambda: png("photos/x.png"), r"photos/x.png belongs to no class"),
    "a folder within a class": (nested, r"cat/old is a folder within a class"),
    "a loop of links": (looped, r"cat/loop is a link"),
    "a hard link": (lambda: os.link("photos/dog/1.png", "photos/cat/x.png"), r"rows 3 and 4 .*'dog/1.png'.*hard links"),
    "a link to another image": (lambda: os.symlink("0.png", "photos/cat/9.png"), r"cat/9.png is a link"),
    "no classes": (lambda: only(), r"photos has no sub-folders"),
    "images without classes": (lambda: only("x.png"), r"photos has no sub-folders"),
    "a space at the end": (lambda: png("photos/cow /x.png"), r"'cow ', with a space at an end"),
    "one class": (lambda: only("cat/x.png"), r"has one sub-folder, 'cat'"),
    "a class like a formula": (lambda: png("photos/=cat()/x.png"), r"'=cat\(\)' looks like a formula"),
    "no name in UTF-8": (lambda: Path(os.fsdecode(b"photos/cat/\xff.png")).touch(), r"not UTF-8: '\\\\xff.png'"),
    "a public class that is unknown": (
        lambda: png("public/bird/x.png"),
        r"public/bird is none of the declared classes",
    ),
    "a broken public image": (lambda: Path("public/cat/0.png").write_text("x"), r"public/cat/0.png: is no image"),
}


@pytest.fixture(autouse=True)
def _photos() -> None:
    for folder in ("photos", "public"):
        for i in range(4):
            png(f"{folder}/{('cat', 'dog')[i % 2]}/{i}.png")


def refused(capsys: pytest.CaptureFixture[str], said: str, *arguments: str) -> None:
    """`discreet train` with these arguments fails with one line, and leaves the folder as it was."""
    before = sorted(Path().iterdir())
    code = run(["train", *arguments])
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("declared public")]
    assert code == 2, err
    assert out == ""
    assert len(lines) == 1
    assert re.search(said, lines[0]), err
    assert sorted(Path().iterdir()) == before


def read(path: Path, options: TableFacts, facts: dict[str, Any]) -> None:
    """What `discreet train` does with these before it charges anything, without a plan."""
    schema = (schema_of_folder if path.is_dir() else schema_of_column)(path, options, facts)
    if options.test is not None:
        public_table(options.test, Encoder(schema))
    with private_table(path, Encoder(schema), Path()):
        pass


def refused_when_read(said: str, *given: Any) -> None:
    before = sorted(Path().iterdir())
    with pytest.raises(InputError, match=said) as found:
        read(*given)
    assert "\n" not in str(found.value)
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("name", FOLDERS)
def test_folders(name: str) -> None:
    change, said = FOLDERS[name]
    change()
    refused_when_read(said, Path("photos"), TableFacts(test=Path("public")), {"unit": "row"})


# name: (a line of the index, what the line says)
INDEX: dict[str, tuple[str, str]] = {
    "out of the folder": ("../secret.png,cat", r"row 3, column 'file': '../secret.png' must be a path from the folder"),
    "out of it by a detour": ("photos/../../secret.png,cat", r"must be a path from the folder of the index"),
    "from the root": ("/etc/passwd,cat", r"must be a path from the folder of the index"),
    "with backslashes": (r"photos\cat\0.png,cat", r"with /"),
    "over a link": ("link/0.png,cat", r"'link/0.png' leads over a link"),
    "a link to itself": ("loop/0.png,cat", r"cannot be followed"),
    "not there": ("photos/cat/none.png,cat", r"'photos/cat/none.png' is not there"),
    "twice": ("photos/cat/0.png,dog", r"rows 1 and 3 are the same image"),
    "twice, spelt otherwise": ("./photos//cat/./0.png,dog", r"rows 1 and 3 are the same image"),
    "twice by a hard link": ("hard.png,dog", r"rows 1 and 3 are the same image 'hard.png'"),
    "no path": (",cat", r"row 3, column 'file': the image is missing"),
    "an unknown class": ("photos/cat/2.png,bird", r"row 3, column 'kind': .* none of the declared .*'bird'"),
    "a folder": ("photos/cat,cat", r"'photos/cat' is no file"),
}


@pytest.mark.parametrize("name", INDEX)
def test_indexes(name: str) -> None:
    line, said = INDEX[name]
    os.symlink("photos/cat", "link")
    os.symlink("loop", "loop")
    os.link("photos/cat/0.png", "hard.png")
    png("../secret.png")
    Path("i.csv").write_text(f"file,kind\nphotos/cat/0.png,cat\nphotos/dog/1.png,dog\n{line}\n")
    facts = {"unit": "row", "target": ["kind"]}
    refused_when_read(said, Path("i.csv"), TableFacts(image="file", classes="cat,dog"), facts)


def stored(*images: tuple[bytes | None, str | None]) -> list[tuple[Path, TableFacts, dict[str, Any]]]:
    """What to read after images were written to a Parquet file as Hugging Face does, of alternating kinds."""
    files = [{"bytes": content, "path": name} for content, name in images]
    kinds = [("cat", "dog")[i % 2] for i in range(len(images))]
    pq.write_table(pa.table({"file": files, "kind": kinds}), "i.parquet")
    options = TableFacts(image="file", classes="cat,dog")
    return [(Path("i.parquet"), options, {"unit": "row", "target": ["kind"]})]


def test_images_twice_in_a_parquet_file() -> None:
    """By name and content, or by a path; equal names of other images and equal content under two names are fine."""
    png("black.png")
    Image.new("L", (8, 8), 255).save("white.png")
    black, white = Path("black.png").read_bytes(), Path("white.png").read_bytes()
    said = r"rows 1 and 3 are the same image '0.png'"
    refused_when_read(said, *stored((black, "0.png"), (white, "1.png"), (black, "0.png"))[0])
    refused_when_read("rows 1 and 2 are", *stored((None, "black.png"), (None, "./black.png"))[0])
    read(*stored((black, "0.png"), (white, "0.png"), (black, "1.png"), (black, None), (black, None))[0])


def test_whether_a_class_has_an_image_is_not_told() -> None:
    """The same classes are declared with the one image of a rare class, without it, and without its folder."""
    found = []
    listed = TableFacts(classes="bird,cat,dog")
    png("photos/bird/rare.png")
    for options in (TableFacts(), listed):
        found.append(schema_of_folder(Path("photos"), options, {"unit": "row"}))
    Path("photos/bird/rare.png").unlink()
    for options in (TableFacts(), listed):
        read(Path("photos"), options, {"unit": "row"})
        found.append(schema_of_folder(Path("photos"), options, {"unit": "row"}))
    Path("photos/bird").rmdir()
    read(Path("photos"), replace(listed, test=Path("public")), {"unit": "row"})
    found.append(schema_of_folder(Path("photos"), listed, {"unit": "row"}))
    assert found == [found[0]] * 5
    column = found[0].columns["class"]
    assert isinstance(column, Category)
    assert column.categories == ("bird", "cat", "dog")


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    Path("photos/cat/x.png").write_text("hello")
    refused(capsys, "photos/cat/x.png: is no image", "photos", "--test", "public", *BUDGET)
    Path("photos/cat/x.png").unlink()
    for i in range(90):
        png(f"photos/cat/n{i}.png")
    refused(capsys, "the data has more rows than", "photos", *BUDGET)


def test_options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    refused(capsys, "there is no folder none/", "none/", *BUDGET)
    refused(capsys, "--population N", "photos", *BUDGET[:4])
    refused(capsys, "--epsilon 3", "photos", *BUDGET[4:])
    refused(capsys, "for example 28x28", "photos", *BUDGET, "--size", "large")
    refused(capsys, "at most 512|less than or equal to 512", "photos", *BUDGET, "--size", "28x4000")
    refused(capsys, "grey", "photos", *BUDGET, "--mode", "blue")
    refused(capsys, "one image is protected", "photos", *BUDGET, "--unit", "patient")
    refused(capsys, "photos/dog is none of the declared classes", "photos", *BUDGET, "--classes", "cat,cow")
    refused(capsys, "leave out --image", "photos", *BUDGET, "--image", "file")
    refused(capsys, "the private table itself", "photos", *BUDGET, "--test", "photos")
    refused(capsys, "lie in one another", "photos", *BUDGET, "--test", "photos/cat")
    refused(capsys, "lies in photos", "photos", *BUDGET[:-1], "photos/model")
    Path("t.csv").write_text("file,kind\nphotos/cat/0.png,cat\n")
    refused(capsys, "--classes A,B", "t.csv", "--image", "file", "--target", "kind", *BUDGET)
    refused(capsys, "--target COLUMN", "t.csv", "--image", "file", *BUDGET)
    monkeypatch.setattr("discreet.data.tables.images.image_file.MOST_BYTES", 10)
    refused(capsys, "cat/0.png: has more than 0 MB", "photos", *BUDGET)
