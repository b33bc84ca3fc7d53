"""Images and texts as numbers: each by itself, by what is declared of it and by nothing else."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image as Pillow

from discreet.data.hashing import hashed
from discreet.data.tables import Encoder, Schema, new_rows, private_table, public_table
from discreet.data.tables.categories import Category
from discreet.data.tables.images.image_file import pixels
from discreet.data.tables.wide import FreeText, Image
from discreet.data.tables.words import numbered
from discreet.jobs.tables.image_or_text_schema import schema_of_folder
from discreet.jobs.tables.table_facts import TableFacts
from discreet.plan.pydantic_base import validate


def content(array: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    image = Pillow.fromarray(array)
    image.save(file, options.pop("format", "png"), **options)
    return file.getvalue()


def seen(found: bytes, **facts: Any) -> list[int]:
    return list(pixels(found, validate(Image, {"size": "6x6"} | facts, "image")))


GREY = np.arange(36, dtype=np.uint8).reshape(6, 6)


def test_pixels_by_hand() -> None:
    assert seen(content(GREY)) == list(range(36))
    colours = np.stack([GREY, GREY + 100, GREY + 200], axis=2)
    assert seen(content(colours), mode="rgb") == [*range(36), *range(100, 136), *range(200, 236)]
    grey = [round((299 * r + 587 * (r + 100) + 114 * (r + 200)) / 1000) for r in range(36)]  # ITU-R 601
    np.testing.assert_allclose(seen(content(colours)), grey, atol=1)
    assert seen(content(GREY), mode="rgb") == [*range(36)] * 3
    assert seen(content(GREY.astype(np.uint16) * 257)) == list(range(36))  # 16 bits
    clear = np.stack([GREY, np.where(GREY < 6, 0, 255).astype(np.uint8)], axis=2)
    assert seen(content(clear)) == [255] * 6 + list(range(6, 36))  # what is transparent is white
    assert seen(content(GREY > 17)) == [0] * 18 + [255] * 18  # one bit


def test_size_and_fit() -> None:
    wide = np.repeat(GREY, 2, axis=1)  # 12 x 6
    assert seen(content(wide)) == pytest.approx(list(range(36)), abs=1)
    assert seen(content(wide), fit="crop") == wide[:, 3:9].ravel().tolist()
    padded = np.array(seen(content(np.full((6, 12), 9, np.uint8)), fit="pad")).reshape(6, 6)
    assert padded.tolist() == [[0] * 6] * 2 + [[9] * 6] * 3 + [[0] * 6]
    turned = Pillow.Exif()
    turned[0x0112] = 3  # by half a turn, as cameras write it
    assert seen(content(GREY, exif=turned)) == list(range(35, -1, -1))


def folder(path: Path, count: int) -> Path:
    for i in range(count):
        (path / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (path / "ab"[i % 2] / f"{i}.png").write_bytes(content(GREY + i))
    (path / "a" / ".hidden").write_text("left out")
    return path


def test_a_folder_an_index_and_a_file_with_images_in_it_are_the_same(tmp_path: Path) -> None:
    images = folder(tmp_path / "images", 5)
    names = sorted(path.relative_to(images).as_posix() for path in images.rglob("*.png"))
    (images / "i.csv").write_text("\n".join(["path,class", *(f"{name},{name[0]}" for name in names)]))
    inside = pa.table({"path": [(images / name).read_bytes() for name in names], "class": [name[0] for name in names]})
    pq.write_table(inside, images / "i.parquet")
    structs = [{"bytes": one, "path": None} for one in inside["path"].to_pylist()]  # as Hugging Face has them
    pq.write_table(inside.set_column(0, "path", pa.array(structs)), images / "h.parquet")
    facts = {
        "columns": {"path": {"type": "image", "size": 6}, "class": {"type": "category", "categories": ["b", "a"]}},
        "target": "class",
        "unit": "row",
    }
    encoder = Encoder(validate(Schema, facts, "schema"))
    sources = [images / "i.csv", images / "i.parquet", images / "h.parquet"]
    found = [public_table(source, encoder) for source in sources]
    for source in sources:
        source.unlink()
    found.append(public_table(images, encoder))
    expected = [[(value + int(name[2])) / 255 for value in range(36)] for name in names]
    for one in found:
        np.testing.assert_allclose(one.inputs, expected, atol=1e-7)
        assert one.targets.tolist() == ["ba".index(name[0]) for name in names]
    with private_table(images, encoder, tmp_path, lambda rows: rows[:, :3] * 255) as table:
        inputs, targets = table.rows.gather(np.array([4, 0]))
        assert inputs.tolist() == [[3.0, 4.0, 5.0], [0.0, 1.0, 2.0]]
        assert targets.tolist() == [0, 1]
    (new,) = new_rows(images, encoder)
    assert torch.equal(torch.from_numpy(new.inputs), found[0].inputs)


def test_words_by_hand() -> None:
    texts = ["The film was NOT good, was it? Films!", "", "Küche 7 <br/>Küche"]

    def hashes(*words: str) -> list[int]:
        return [1 + hashed(word) % 1000 for word in words] + [0] * (4 - len(words))

    column = FreeText(buckets=1000, length=4)
    assert numbered(texts, column).tolist()[:2] == [hashes("film", "not", "not good"), hashes()]
    in_any = column.model_copy(update={"take": "any"})
    assert numbered(texts, in_any)[2].tolist() == hashes("küche", "7")
    assert numbered(texts, in_any)[0].tolist() == hashes("the", "film", "was", "not")
    listed = column.model_copy(update={"vocabulary": ("good", "films", "küche")})
    assert numbered(texts, listed.model_copy(update={"take": "any"})).tolist() == [[1, 2, 0, 0], [0] * 4, [3, 0, 0, 0]]
    assert numbered(texts, listed)[0].tolist() == [2, 0, 0, 0]  # "not good" is another word
    assert listed.words == 3


def test_texts_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('review,sentiment\n"two\nlines, good",pos\n,neg\nbad,neg\n')
    facts = {
        "columns": {"review": {"type": "text"}, "sentiment": {"type": "category", "categories": ["neg", "pos"]}},
        "target": "sentiment",
        "csv": {"newlines": True},
    }
    encoder = Encoder(validate(Schema, facts, "schema"))
    found = public_table(tmp_path / "t.csv", encoder)
    assert found.inputs.dtype == torch.int64
    assert (found.inputs > 0).sum(1).tolist() == [2, 0, 1]  # "two" is a stop word
    with private_table(tmp_path / "t.csv", encoder, tmp_path) as table:
        assert torch.equal(table.rows.gather(np.array([0, 1, 2]))[0], found.inputs)
    typed = pa.table(
        {"review": pa.array(["two\nlines, good", None, "bad"], pa.large_string()), "sentiment": ["pos", "neg", "neg"]}
    )
    pq.write_table(typed, tmp_path / "t.parquet")
    assert torch.equal(public_table(tmp_path / "t.parquet", encoder).inputs, found.inputs)
    dropping = facts["columns"] | {"review": {"type": "text", "missing": "drop"}}
    kept = public_table(tmp_path / "t.csv", Encoder(validate(Schema, facts | {"columns": dropping}, "schema")))
    assert torch.equal(kept.inputs, found.inputs[[0, 2]])


def test_what_a_folder_declares_comes_from_names_and_public_images(tmp_path: Path) -> None:
    """Colours in private images alone change nothing of the schema."""
    private, public = folder(tmp_path / "private", 4), folder(tmp_path / "public", 4)
    colours = content(np.stack([GREY] * 3, axis=2))
    (private / "a" / "coloured.png").write_bytes(colours)
    facts = {"unit": "row", "population": 4.0}
    grey = [schema_of_folder(private, TableFacts(test=test), facts) for test in (None, public)]
    assert grey[0] == grey[1]
    assert grey[0].wide == ("path", Image(size=(28, 28), mode="grey"))
    assert grey[0].columns["class"] == Category(categories=("a", "b"))
    (public / "b" / "coloured.png").write_bytes(colours)
    coloured = schema_of_folder(private, TableFacts(test=public), facts)
    assert coloured.wide == ("path", Image(size=(32, 32), mode="rgb"))
    said = schema_of_folder(private, TableFacts(test=public, size="40x30", mode="grey"), facts)
    assert said.wide == ("path", Image(size=(40, 30), mode="grey"))
