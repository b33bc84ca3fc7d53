"""`discreet init`: something to start from, which runs as it is."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from discreet.core.disk import check_target, whole_folder, write_output
from discreet.core.errors import InputError, typed


class Kind(StrEnum):
    """The project to start from."""

    TABLE = "table"
    IMAGES = "images"
    MODULE = "module"


def init(
    kind: Annotated[
        Kind, typer.Argument(help="table: with a schema. images: a folder of them. module: your own network.")
    ],
    file: Annotated[
        Path | None, typer.Argument(help="A table of your own: its schema is written, from questions.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder, or .py file (module) [table-start, images-start, train_private.py]."),
    ] = None,
) -> None:
    """Write a small example that runs as it is; or, of a table of your own, its schema. Nothing is overwritten."""
    if file is None:
        typer.echo(_STARTS[kind](out))
        return
    if kind is not Kind.TABLE:
        raise InputError(
            f"only a table is asked about; to name what is written, say --out {typed(file)}, or of a table of yours: "
            f"discreet init table {typed(file)}"
        )
    from discreet.cli.commands.init_questions import ask

    typer.echo(ask(file, out))


def _table(out: Path | None) -> str:
    """Write a folder with a table, a public table and a schema; returns what to do next."""
    files = {
        "schema.yaml": _text("schema.yaml.txt"),
        "patients.csv": "".join(_patients(1000, seed=1)),
        "volunteers.csv": "".join(_patients(300, seed=2)),
    }
    folder = out or Path("table-start")
    with _new(folder) as draft:
        for name, content in files.items():
            (draft / name).write_text(content, encoding="utf-8")
    return f"{folder}: go there; the commands are at the top of schema.yaml"


def _images(out: Path | None) -> str:
    """Write a folder with private images, public images and their declaration; returns what to do next."""
    from discreet.cli.show.made_up_images import fruit

    folder = out or Path("images-start")
    with _new(folder) as draft:
        (draft / "photos.yaml").write_text(_text("photos.yaml.txt"), encoding="utf-8")
        for name, count, seed in (("photos", 400, 1), ("public", 100, 2)):
            for path, content in fruit(count, seed):
                (draft / name / path).parent.mkdir(parents=True, exist_ok=True)
                (draft / name / path).write_bytes(content)
    return f"{folder}: go there; the commands are at the top of photos.yaml"


def _module(out: Path | None) -> str:
    """Write one file with a network, a plan, training and publishing; returns what to do next."""
    path = out or Path("train_private.py")
    if path.suffix != ".py":
        raise InputError(f"{path} is no Python file; name a .py file with --out")
    text = _text("train.py.txt").replace("{name}", typed(path.name)).replace("{folder}", f"{path.stem}-model")
    write_output(path, text.encode(), replace=False, advice="name another with --out")
    return f"{path}: run it with python {typed(path)}"


_STARTS: Mapping[Kind, Callable[[Path | None], str]] = {
    Kind.TABLE: _table,
    Kind.IMAGES: _images,
    Kind.MODULE: _module,
}


@contextmanager
def _new(folder: Path) -> Iterator[Path]:
    """A folder to write in, which becomes the new `folder` at the end."""
    if folder.exists():
        raise InputError(f"{folder} exists already; name another folder with --out")
    check_target(folder)
    try:
        with whole_folder(folder) as draft:
            yield draft
    except OSError as error:
        raise InputError(f"cannot make {folder}: {error.strerror}; name another folder with --out") from None


def _text(name: str) -> str:
    return resources.files("discreet.cli").joinpath("starts", name).read_text("utf-8")


def _patients(rows: int, seed: int) -> Iterator[str]:
    """Lines of a made-up table, in which the outcome depends on age, smoking and pressure."""
    draw = random.Random(seed)
    yield "age,sex,smoker,pressure,outcome\n"
    for _ in range(rows):
        age, smoker = draw.randint(18, 95), draw.random() < 0.3
        pressure = round(draw.gauss(100 + age / 2, 12))
        ill = draw.random() < 1 / (1 + math.exp(-((age - 60) / 8 + 2 * smoker)))
        yield f"{age},{draw.choice('fm')},{'yes' if smoker else 'no'},{pressure},{'ill' if ill else 'well'}\n"
