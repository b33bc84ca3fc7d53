"""Ways to bring a table that cannot be used: each one clear line, exit 2, nothing half-written, nothing charged.

`KINDS` lists them all, for `train`, `predict` and `verify`. Each is run in a folder of its own, beside a ledger that
must not come to be; all files are compared before and after.
"""

from __future__ import annotations

import copy
import io
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from bad_tables import HEADER, PARQUET, ROWS, SCHEMA, TRAIN, text
from folders import folder_of
from instead import instead

from discreet.certificate.model_spec import ModelSpec, Named
from discreet.cli.app import run
from discreet.data.tables import Encoder, Schema
from discreet.recipes.models.models import MODELS

NEW = "age,sex,seen,smoker"
PREDICT: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "is empty"),
    "a header alone": (f"{NEW}\n".encode(), "no rows"),
    "a column that is not there": (b"age,sex,seen\n50,f,2024-01-01\n", "no column 'smoker'"),
    "two columns of one name": (b"age,age,seen,smoker\n50,f,2024-01-01,1\n", "no column 'sex'.*age, age.1, seen"),
    "no header": (b"50,f,2024-01-01,1\n50,f,2024-01-01,1\n", "no column 'age'"),
    "NaN": (f"{NEW}\nnan,f,2024-01-01,1\n".encode(), "row 1, column 'age': 'nan' is not a finite number"),
    "infinity": (f"{NEW}\ninf,f,2024-01-01,1\n".encode(), "'inf' is not a finite number"),
    "text among numbers": (f"{NEW}\n50,f,2024-01-01,1\nfifty,f,2024-01-01,1\n".encode(), "row 2, column 'age'"),
    "a formula among numbers": (f"{NEW}\n=1+1,f,2024-01-01,1\n".encode(), "'=1\\+1' is not a number"),
    "no day": (f"{NEW}\n50,f,2024-02-30,1\n".encode(), "'2024-02-30' is not a day"),
    "a row too long": (f"{NEW}\n50,f,2024-01-01,1,1\n".encode(), "line 2 has 5 values instead of 4"),
    "a row too short": (f"{NEW}\n50,f\n".encode(), "line 2 has 2 values instead of 4"),
    "an open quote": (f'{NEW}\n50,f,2024-01-01,"1\n'.encode(), "a quote is not closed"),
    "a spreadsheet": (b"PK\x03\x04" + bytes(range(200)), "a spreadsheet"),
}

# name: what stands in for certificate.json, None for nothing
VERIFY: dict[str, tuple[bytes | None, str]] = {
    "no certificate": (None, "cannot read m/certificate.json"),
    "an empty certificate": (b"", "cannot be read as JSON in UTF-8"),
    "a certificate that is no JSON": (b"epsilon: 1", "cannot be read as JSON in UTF-8"),
    "a certificate that is a list": (b"[]", "is not a certificate"),
    "a certificate that is no text": (b"\xff\xfe\x00", "cannot be read as JSON in UTF-8"),
    "a certificate nested without end": (b"[" * 100_000, "cannot be read as JSON in UTF-8"),
}


@dataclass(frozen=True)
class Kind:
    """Files that are there, the command, and what its one line says."""

    files: Mapping[str, bytes | None]
    arguments: tuple[str, ...]
    said: str


def schema_of(changes: dict[str, Any]) -> bytes:
    return yaml.safe_dump(copy.deepcopy(SCHEMA) | changes).encode()


def train(table: str, content: bytes | None, changes: dict[str, Any], said: str, *more: str) -> Kind:
    """`discreet train` on a table, with a schema."""
    options = ("--schema", "s.yaml", "--epsilon", "3", "--delta", "1e-4", "--out", "model", "--ledger", "team.sqlite")
    files = {"s.yaml": schema_of(changes)} | ({} if content is None else {table: content})
    return Kind(files, ("train", table, *instead(options, *more)), said)


def parquet(change: Callable[[pa.Table], pa.Table]) -> bytes:
    columns = list(zip(*(line.split(",") for line in ROWS), strict=True))
    table = pa.table(dict(zip(HEADER.split(","), map(list, columns), strict=True)))
    file = io.BytesIO()
    pq.write_table(change(table.set_column(0, "age", table.column(0).cast(pa.int64()))), file)
    return file.getvalue()


def others() -> dict[str, Kind]:
    """What is wrong with files and options, and not with values."""
    table, twice = {"t.csv": text()}, b"columns: {a: {type: ignore}, a: {type: ignore}}"
    few = "\n".join([HEADER, *ROWS[:9]]).encode()
    grouped = train("t.csv", text(), {"subgroups": ["sex"]}, "the subgroup sex=f has 5 rows", "--test", "public.csv")
    bare = ("train", "t.csv", "--schema", "s.yaml")
    return {
        "train: no such table": train("none.csv", None, {}, "there is no table none.csv"),
        "train: no such Parquet": train("none.parquet", None, {}, "there is no table none.parquet"),
        "train: not Parquet": train("t.parquet", b"PAR1 is not enough", {}, "cannot read t.parquet"),
        "train: no such table, no schema": Kind(
            table, ("train", "none.csv", "--epsilon", "3"), "there is no table none.csv, and no --schema"
        ),
        "train: no schema": Kind(table, ("train", "t.csv", "--epsilon", "3"), "a table needs a schema"),
        "train: no such schema": Kind(table, (*bare, "--epsilon", "3"), "cannot read s.yaml"),
        "train: no epsilon": Kind(table | {"s.yaml": schema_of({})}, bare, "--epsilon 3"),
        "train: epsilon 0": train("t.csv", text(), {}, "epsilon must be .*greater than 0", "--epsilon", "0"),
        "train: delta above 1 / population": train(
            "t.csv",
            text(),
            {"population": 4000},
            r"delta 0.001 is above 1 / population = 0.00025.*say delta 0.0001",
            "--delta",
            "1e-3",
        ),
        "train: delta 2": train("t.csv", text(), {}, "delta must be .*less than 1", "--delta", "2"),
        "train: its own test": train("t.csv", text(), {}, "the private table itself", "--test", "t.csv"),
        "train: a schema for digits": Kind(table, ("train", "digits", "--schema", "s.yaml"), "go with a table"),
        "train: a column declared twice": Kind(
            table | {"s.yaml": twice}, (*bare, "--epsilon", "3"), "'a' is there twice"
        ),
        "train: a small subgroup": Kind(grouped.files | {"public.csv": few}, grouped.arguments, grouped.said),
        "train: a folder that is taken": Kind(
            train("t.csv", text(), {}, "").files | {"model/x": b""},
            train("t.csv", text(), {}, "").arguments,
            "model exists already",
        ),
        "predict: no such table": Kind({}, ("predict", "m", "none.csv"), "there is no table none.csv"),
        "predict: no such folder": Kind({}, ("predict", "none", "none.csv"), "cannot read none/certificate.json"),
        "predict: a table as a folder": Kind(
            table, ("predict", "t.csv", "t.csv"), "t.csv is a file, and no published folder"
        ),
        "predict: nowhere to write": Kind(
            {"n.csv": f"{NEW}\n50,f,2024-01-01,1\n".encode()},
            ("predict", "m", "n.csv", "--out", "no/p.csv"),
            "cannot write no/p.csv",
        ),
        "verify: no such folder": Kind({}, ("verify", "none"), "cannot read none/certificate.json"),
        "verify: a table": Kind(table, ("verify", "t.csv"), "t.csv is a file, and no published folder"),
        "verify: no weights": Kind({"m/model.safetensors": None}, ("verify", "m"), "cannot read m/model.safetensors"),
    }


KINDS: dict[str, Kind] = {
    **{f"train: {name}": train("t.csv", *kind) for name, kind in TRAIN.items()},
    **{
        f"train: Parquet, {name}": train("t.parquet", parquet(change), {}, said)
        for name, (change, said) in PARQUET.items()
    },
    **{
        f"predict: {name}": Kind({"n.csv": content}, ("predict", "m", "n.csv", "--out", "p.csv"), said)
        for name, (content, said) in PREDICT.items()
    },
    **{
        f"verify: {name}": Kind({"m/certificate.json": content}, ("verify", "m"), said)
        for name, (content, said) in VERIFY.items()
    },
    **others(),
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model for such tables."""
    encoder = Encoder(Schema.model_validate(SCHEMA))
    arguments = {"kinds": list(encoder.kinds), "outputs": 2}
    spec = ModelSpec(Named("tabular", arguments), inputs=(4,), table=encoder.to_json(), outputs="classes")
    return folder_of(tmp_path_factory.mktemp("published") / "m", MODELS["tabular"](**arguments), spec)


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", KINDS)
def test_one_clear_line_and_nothing_else(name: str, published: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kind = KINDS[name]
    if "m" in kind.arguments:
        shutil.copytree(published, "m")
    for file, content in kind.files.items():
        if content is None:
            Path(file).unlink()
            continue
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_bytes(content)
    before = everything(Path())
    assert run(list(kind.arguments)) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert re.search(kind.said, err), err
    assert everything(Path()) == before  # no ledger either, so nothing was charged


def test_a_table_that_is_right_is_not_refused(published: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same command on a table as it should be, also one that begins with a byte-order mark."""
    for mark in (b"", b"\xef\xbb\xbf"):
        Path("n.csv").write_bytes(mark + f"{NEW}\n50,f,2024-01-01,1\n".encode())
        assert run(["predict", str(published), "n.csv"]) == 0
        assert capfd.readouterr().out.startswith("outcome,probability,p(well),p(ill)\n")
