"""A schema without a file, from the command line: for a folder of images, or one column of images or texts.

Its declarations come from the command line, from the names of sub-folders, or from a table or folder that is declared
public. Nothing comes from a private row or image.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from discreet.core.errors import InputError
from discreet.data.tables import CsvFormat, Schema, blocks
from discreet.data.tables.files.as_written import as_written
from discreet.data.tables.images import classes_in, images_under, is_coloured
from discreet.data.tables.values import Marks, texts
from discreet.data.tables.wide import Image
from discreet.data.tables.words import words_in
from discreet.jobs.tables.table_facts import TableFacts
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe

_SIZES = {"grey": "28x28", "rgb": "32x32"}
_MOST_CLASSES = 1000


def schema_of_folder(path: Path, options: TableFacts, facts: dict[str, Any]) -> Schema:
    """The schema of a folder with a sub-folder for each class. `facts`: unit, population and target, if given."""
    strange = [name for name in options.given_in_place if name not in ("--size", "--mode", "--classes")]
    if strange:
        raise InputError(f"{path} is a folder of images, in sub-folders for its classes; leave out {strange[0]}")
    if facts.get("target", ["class"]) != ["class"] or facts.get("unit", "row") != "row":
        raise InputError(
            f"{path} is a folder of images: its sub-folders are the target, and one image is protected; for anything "
            "else give an index file (.csv) with --image COLUMN"
        )
    given = {
        "columns": {
            "path": _image(options, None),
            "class": {"type": "category", "categories": options.class_names or list(classes_in(path))},
        },
        "target": "class",
        "unit": "row",
        "row_id": "path",
    }
    return validate(Schema, given | {key: facts[key] for key in ("population",) if key in facts}, str(path))


def schema_of_column(path: Path, options: TableFacts, facts: dict[str, Any]) -> Schema:
    """The schema of a table with one column that the model sees; its other columns are not read."""
    target = facts.get("target", [])
    if len(target) != 1:
        raise InputError(f"say which column of {path} has the classes: --target COLUMN; for labels write a schema")
    if options.text is not None and options.image is not None:
        raise InputError("give either --text or --image; a model sees one of them")
    name = options.text or options.image or ""
    if target == [name]:
        raise InputError(f"--target {name} is the column that the model reads; name another")
    of_the_other = ("--size", "--mode") if options.text is not None else ("--vocabulary",)
    strange = [option for option in options.given if option in of_the_other]
    if strange:
        raise InputError(f"{strange[0]} is not for {'texts' if options.text is not None else 'images'}; leave it out")
    csv = CsvFormat(newlines=True, delimiter="\t" if ".tsv" in path.name.lower() else ",")
    column = _text(options) if options.text is not None else _image(options, name, csv)
    given = {
        "columns": {
            name: column,
            target[0]: {"type": "category", "categories": _classes(options, target[0], csv)},
        },
        "csv": csv.model_dump(),
        "others": "ignore",
    }
    return validate(Schema, given | facts, str(path))


def declared(recipe: Recipe) -> list[str]:
    """Sentences on what is declared public of images or texts."""
    schema = recipe.table
    if schema is None or schema.wide is None:
        return []
    column = schema.wide[1]
    if isinstance(column, Image):
        seen = f"images as {column.size[0]} x {column.size[1]} pixels, {column.mode}"
    else:
        seen = f"{'numbers of words by a public hash' if column.vocabulary is None else 'the vocabulary'}"
    targets = [schema.columns[name] for name in schema.target]
    classes = [", ".join(one.categories) for one in targets if hasattr(one, "categories")]
    names = f"the classes {classes[0][:400]}; " if classes else ""
    return [f"declared public, and published with the model: {names}{seen}"]


def _text(options: TableFacts) -> dict[str, Any]:
    return {"type": "text"} | ({} if options.vocabulary is None else {"vocabulary": words_in(options.vocabulary)})


def _image(options: TableFacts, name: str | None, csv: CsvFormat | None = None) -> dict[str, Any]:
    test = options.declared_public
    mode = options.mode or ("rgb" if test is not None and _coloured(test, name, csv) else "grey")
    if mode not in _SIZES:
        raise InputError(f"--mode is {' or '.join(_SIZES)}, not {mode}")
    column = {"type": "image", "mode": mode, "size": options.size or _SIZES[mode]}
    if options.size is not None:
        validate(Image, column, "--size")
    return column


def _coloured(test: Path, name: str | None, csv: CsvFormat | None) -> bool:
    """Whether any of the images that are declared public has colours."""
    if test.is_dir():
        return any(is_coloured(test / image) for image in images_under(test))
    if name is None:
        raise InputError(f"{test} must be a folder with a sub-folder for each class, as what is trained on")
    return any(is_coloured(test.parent / value) for value in _column(test, name, csv or CsvFormat()) if value)


def _classes(options: TableFacts, target: str, csv: CsvFormat) -> list[str]:
    if options.classes is not None:
        return options.class_names
    test = options.declared_public
    if test is None:
        raise InputError(
            f"say which classes {target} can have, as the public may know them: --classes A,B; or give a table that is "
            "public with --test or --public"
        )
    if test.is_dir():
        return list(classes_in(test))
    found = sorted({value for value in _column(test, target, csv) if value is not None})
    if len(found) > _MOST_CLASSES:
        raise InputError(f"{target} has {len(found)} classes in {test}; write a schema, with its type")
    return found


def _column(test: Path, name: str, csv: CsvFormat) -> list[str | None]:
    """The values of a column of a table that is declared public."""
    facts = {
        "columns": {name: {"type": "category", "categories": ["any"]}},
        "others": "ignore",
        "csv": csv.model_dump(),
    }
    schema = validate(Schema, facts, "--test")
    schema = as_written(test, schema, [name])
    parts = [texts(block.column(0).cast(pa.string()), Marks()) for block in blocks(test, schema, [name])]
    return [value for part in parts for value in part.to_pylist()]
