"""Images as blocks of a table: from a folder with a sub-folder for each class, or from an index with paths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pyarrow as pa

from discreet.core.errors import InputError
from discreet.data.tables.categories import Category
from discreet.data.tables.files.reading import blocks
from discreet.data.tables.images.image_file import pixels
from discreet.data.tables.images.image_folder import image_in, images_under, labelled
from discreet.data.tables.problems import Problems
from discreet.data.tables.schema import Schema
from discreet.data.tables.wide import Image

_ROWS = 256
"""Images that are opened at a time."""


def sources(
    path: Path, schema: Schema, wanted: Sequence[str], problems: Problems | None = None
) -> Iterator[pa.RecordBatch]:
    """The `wanted` columns of a table, or of a folder of images, in blocks; faulty rows as in `blocks`.

    A folder has two columns: the schema's image column is the path, its target the class. Without the target, images
    may be anywhere in the folder.
    """
    if not path.is_dir():
        for block in blocks(path, schema, wanted, problems):
            yield from _parts(block) if _image(schema) else (block,)
        return
    image = _image(schema)
    if image is None:
        raise InputError(f"{path} is a folder, but this is about a table; give a .csv or .parquet file")
    rows = _rows(path, schema, wanted)
    while part := list(islice(rows, _ROWS)):
        columns = {image[0]: [name for name, _ in part]}
        if schema.target:
            columns[schema.target[0]] = [label for _, label in part]
        yield pa.RecordBatch.from_pydict({name: pa.array(columns[name], pa.string()) for name in wanted})


def opened(block: pa.RecordBatch, path: Path, schema: Schema, start: int) -> pa.RecordBatch:
    """The block with pixels in place of the images' paths or content; null where an image is left out.

    `path` is that of the table or folder, `start` the number of the block's first row. `InputError` names the image.
    """
    image = _image(schema)
    if image is None:
        return block
    name, column = image
    folder = path.is_dir()
    missing = ("", *schema.missing)
    found: list[bytes | None] = []
    for row, value in enumerate(block.column(name).to_pylist(), start + 1):
        where = f"{path / value}" if folder else f"{path}: row {row}, column {name!r}"
        if value is None or (isinstance(value, str) and value in missing):
            if column.missing != "drop":
                raise InputError(f"{where}: the image is missing")
            found.append(None)
            continue
        try:
            found.append(pixels(_source(path, folder, value), column))
        except InputError as error:
            if column.unreadable != "drop":
                shown = "" if folder or not isinstance(value, str) else f" {value[:80]!r}"
                raise InputError(f"{where}:{shown} {error}") from None
            found.append(None)
    size = math.prod(column.shape)
    return block.set_column(block.schema.get_field_index(name), name, pa.array(found, pa.binary(size)))


class Once:
    """Refuses an image that is there twice: it would be two rows, and its person half protected.

    Files are compared by device and inode, so other spellings of a path and hard links are found; content that a
    Parquet file names is compared by its name and SHA-256. Equal content under two names, or under none, is not
    refused: two people may have equal images.
    """

    def __init__(self, path: Path, schema: Schema) -> None:
        image = None if schema.unit_column is not None else _image(schema)
        self._path, self._name = path, None if image is None else image[0]
        self._missing = ("", *schema.missing)
        self._rows: dict[int | bytes, int] = {}

    def note(self, block: pa.RecordBatch, start: int) -> None:
        """Record the images of a block, whose first row has the number `start`. `InputError` names both rows of a
        duplicate."""
        if self._name is None or pa.types.is_binary(block.column(self._name).type):
            return
        for row, value in enumerate(block.column(self._name).to_pylist(), start + 1):
            same = None if value is None or value in self._missing else self._same(value)
            first = row if same is None else self._rows.setdefault(same, row)
            if first != row:
                shown = str(value.get("path") if isinstance(value, dict) else value)[:80]
                raise InputError(
                    f"{self._path}: rows {first} and {row} are the same image {shown!r}; "
                    + (
                        "it has two names (hard links), keep one"
                        if self._path.is_dir()
                        else "name each once, or say whose rows they are with --unit"
                    )
                )

    def _same(self, value: object) -> int | bytes | None:
        """A value that is equal for equal images; None if that cannot be told, or if the file is missing (an error
        later)."""
        try:
            source = _source(self._path, self._path.is_dir(), value)
            if isinstance(source, Path):
                found = source.stat()
                return found.st_dev << 128 | found.st_ino
        except (InputError, OSError, ValueError):
            return None
        name = value.get("path") if isinstance(value, dict) else None
        return sha256(f"{name}\0".encode() + source).digest() if name else None


def _source(path: Path, folder: bool, value: object) -> Path | bytes:
    if isinstance(value, dict):  # as Hugging Face stores images in Parquet files
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InputError("is neither the path of an image nor its content")
    return path / value if folder else image_in(path.parent, value)


def _rows(path: Path, schema: Schema, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    (target,) = schema.target or (None,)
    image = _image(schema)
    assert image is not None
    strange = [name for name in wanted if name not in (image[0], target)]
    if strange:
        raise InputError(
            f"{path} is a folder, which has a path and a class for each image, and no column {strange[0]!r}; use an "
            "index file (.csv)"
        )
    if target is None or target not in wanted:
        return ((name, "") for name in images_under(path))
    column = schema.columns[target]
    if not isinstance(column, Category):
        raise InputError(f"schema: {target} must be a category, the names of the sub-folders of {path}")
    return labelled(path, tuple(column.codes))


def _image(schema: Schema) -> tuple[str, Image] | None:
    found = schema.wide
    return (found[0], found[1]) if found is not None and isinstance(found[1], Image) else None


def _parts(block: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A block of paths in parts, so that only some images are in memory at a time."""
    return (block.slice(start, _ROWS) for start in range(0, block.num_rows, _ROWS))
