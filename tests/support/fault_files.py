"""Odd files and paths, drawn from a random generator."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

Draw = random.Random

NUMBERS = (
    *("0", "-0", "1", "-1", "2", "7", "0.5", "0.01", "1e-5", "100", "1000", "1e5", "1e9", "1e308", "1e-320", "1e400"),
    *("nan", "inf", "-inf", "9" * 400, "0x10", "1_000", "1,5", "", " ", "true", "None", "'3'", "2001-13-45", "١٢", "½"),
)
WORDS = (
    "",
    "x",
    "é",
    "a" * 300,
    "..",
    "/",
    "~",
    "a\nb",
    "\u202e",
    "[1",
    "{a: b",
    "&a [*a]",
    "!!python/object:os.system",
    "0" * 50,
)


def yaml_text(draw: Draw) -> str:
    """A recipe or schema, or something that is none."""
    deep = draw.choice([3, 40, 3000])
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{one}: &{one} [{', '.join([f'*{before}'] * 9)}]\n" for before, one in zip("abcdefgh", "bcdefghi", strict=True)
    )
    return draw.choice(
        [
            "",
            "[]",
            "a: 1\na: 2\n",
            "[" * deep + "]" * deep,
            "- " * deep + "x",
            bomb,
            "steps: 2001-13-45\n",
            "steps: " + "9" * 5000 + "\n",
            "\ud800",
            "x: !!binary '???'\n",
            "".join(f"k{i}: {i}\n" for i in range(draw.choice([10, 20_000]))),
            f"data: digits\nsteps: {draw.choice(NUMBERS)}\n",
            "columns: {}\ntarget: y\n".format(draw.choice(WORDS) or "x"),
            "population: 100\nunit: row\ncolumns:\n  b: {type: category, categories: [a, b]}\n"
            f"  a: {{type: number, low: {draw.choice(NUMBERS)}, high: {draw.choice(NUMBERS)}}}\ntarget: b\n",
            "\x00\x01",
        ]
    )


def write(path: Path, content: str | bytes) -> str:
    """A file, with what cannot be encoded as it is."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return str(path)


def odd_path(draw: Draw, folder: Path) -> str:
    """A path that is no file to be read: a folder, a pipe, a link to itself, a very long name."""
    kind = draw.choice(["folder", "pipe", "loop", "long", "none", "dev"])
    path = folder / kind
    if kind == "folder":
        path.mkdir(exist_ok=True)
    elif kind == "pipe" and not path.exists():
        os.mkfifo(path)
    elif kind == "loop" and not path.is_symlink():
        path.symlink_to(path)
    return {"long": "n" * 300, "dev": "/dev/zero"}.get(kind, str(path))


def json_text(draw: Draw) -> str:
    """A list of noise, or something that is none."""
    deep = draw.choice([3, 100_000])
    return draw.choice(
        [
            "",
            "[]",
            "[[1, 10], [2, 20]]",
            "[" * deep + "]" * deep,
            json.dumps([[1.5, 1]] * draw.choice([10, 100_000])),
            "[[1e400, 1]]",
            "[[NaN, 1]]",
            "[[1, 1e9]]",
            "[[1, " + "9" * 5000 + "]]",
            '{"a": 1}',
            "[[true, 1]]",
            '[["1", 1]]',
        ]
    )


def csv_text(draw: Draw) -> str | bytes:
    """A table, or something that is none."""
    rows = "".join(f"{i},{'ab'[i % 2]},{i / 7:.3f}\n" for i in range(30))
    return draw.choice(
        [
            "",
            "a\n",
            "a,b,c\n" + rows,
            "a,a,b\n" + rows,
            ",".join(f"c{i}" for i in range(draw.choice([10, 20_000]))) + "\n",
            "a,b\n" + '"' + "x" * 100_000,
            "a;b;c\n" + rows.replace(",", ";"),
            ("a,b,c\n" + rows).encode("utf-16"),
            b"\xff\xfe\x00\xd8a,b\n1,2\n",
            b"PK\x03\x04" + bytes(100),
            b"PAR1" + bytes(100) + b"PAR1",
            bytes(1000),
            "a,b\r1,2\r3,4",
            "a,b\n1\n1,2,3\n",
        ]
    )
