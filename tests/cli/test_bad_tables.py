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
from folders import folder_of

from discreet.certificate.model_spec import ModelSpec, Named
from discreet.cli.app import run
from discreet.data.tables import Encoder, Schema
from discreet.recipes.models.models import MODELS

SCHEMA: dict[str, Any] = {
    "unit": "row",
    "population": 40,
    "target": "outcome",
    "columns": {
        "age": {"type": "number", "low": 0, "high": 120},
        "sex": {"type": "category", "categories": ["f", "m"]},
        "seen": {"type": "date", "low": "2000-01-01", "high": "2030-01-01"},
        "smoker": {"type": "boolean"},
        "outcome": {"type": "category", "categories": ["well", "ill"]},
    },
}
HEADER = "age,sex,seen,smoker,outcome"
ROW = "50,f,2024-01-01,yes,well"
ROWS = [f"{20 + i},{'fm'[i % 2]},2024-01-{1 + i % 28:02},{i % 2},{('well', 'ill')[i % 2]}" for i in range(40)]


def text(*rows: str, header: str = HEADER) -> bytes:
    return ("\n".join([header, *ROWS, *rows]) + "\n").encode()


def row(**values: str) -> str:
    return ",".join((dict(zip(HEADER.split(","), ROW.split(","), strict=True)) | values).values())


def column(name: str, **facts: Any) -> dict[str, Any]:
    return {"columns": SCHEMA["columns"] | {name: facts}}


def without(name: str) -> dict[str, Any]:
    return {"columns": {key: value for key, value in SCHEMA["columns"].items() if key != name}}


def all_of(name: str, value: str) -> bytes:
    at = HEADER.split(",").index(name)
    rows = [",".join([*one.split(",")[:at], value, *one.split(",")[at + 1 :]]) for one in ROWS]
    return ("\n".join([HEADER, *rows]) + "\n").encode()


# name: (bytes of the table, changes of the schema, what the line says)
TRAIN: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "another delimiter": (text().replace(b",", b";"), {}, r"parted by ';'"),
    "a row too long": (text(ROW + ",1"), {}, "line 42 has 6 values instead of 5"),
    "a row too short": (text("50,f"), {}, "line 42 has 2 values"),
    "two columns of one name": (text(header="age,age,seen,smoker,outcome"), {}, "no column 'sex'.*age, age.1, seen"),
    "an empty file": (b"", {}, "is empty"),
    "a header alone": ((HEADER + "\n").encode(), {}, "no rows"),
    "a column that is not there": (text(header="years,sex,seen,smoker,outcome"), {}, "no column 'age'"),
    "a column that is not declared": (text(), without("smoker"), "a column 'smoker' that the schema does not name"),
    "no header": ("\n".join(ROWS).encode(), {}, "no column 'age'"),
    "text among numbers": (text(row(age="fifty")), {}, "row 41, column 'age': 'fifty' is not a number"),
    "a mark among numbers": (text(row(age="-")), {}, "'-' is not a number; if it stands for a missing value"),
    "a number with a comma": (text(row(age='"1,5"')), {}, "'1,5' is not a number"),
    "an underscore in a number": (text(row(age="1_0")), {}, "'1_0' is not a number"),
    "NaN": (text(row(age="nan")), {}, "row 41, column 'age': 'nan' is not a finite number"),
    "infinity": (text(row(age="-inf")), {}, "'-inf' is not a finite number"),
    "a number beyond all floats": (text(row(age="9" * 400)), {}, "is not a finite number"),
    "out of range": (text(row(age="130")), column("age", type="number", low=0, high=120, outside="refuse"), "row 41"),
    "no day": (text(row(seen="31.12.2024")), {}, "row 41, column 'seen': '31.12.2024' is not a day"),
    "a 30th of February": (text(row(seen="2024-02-30")), {}, "'2024-02-30' is not a day"),
    "an unknown class": (text(row(outcome="dead")), {}, "row 41, column 'outcome': .*none of the declared.*'dead'"),
    "no class": (text(row(outcome="")), {}, "row 41, column 'outcome': the value is missing"),
    "one class": (all_of("outcome", "ill"), {}, "the target 'outcome' is the same in every row"),
    "a missing value that is refused": (
        text(row(sex="")),
        column("sex", type="category", categories=["f", "m"], missing="refuse"),
        "row 41, column 'sex': the value is missing",
    ),
    "a column of nothing": (all_of("age", ""), {}, "every value of column 'age' is missing"),
    "another spelling throughout": (all_of("sex", "female"), {}, "every value of column 'sex'"),
    "not UTF-8": (text(row(sex="\xfc")).decode().encode("latin-1"), {}, "not text in UTF-8"),
    "UTF-16": (text().decode().encode("utf-16"), {}, "UTF-8"),
    "an open quote": (text(row(outcome='"well')), {}, "a quote is not closed"),
    "more people than declared": (text(*ROWS * 9), {}, "the data has more rows than"),
    "formula in the schema": (text(), column("sex", type="category", categories=["=cmd()", "m"]), "like a formula"),
    "formula as a column": (text(header="=age,sex,seen,smoker,outcome"), {"others": "ignore"}, "no column 'age'"),
    "the target is not there": (text(), {"target": "death"}, "the target 'death' is not a column of the schema"),
    "the target is ignored": (text(), column("outcome", type="ignore"), "the target 'outcome' is ignored"),
    "labels that are no booleans": (
        text(),
        {"target": ["smoker", "outcome"]},
        "declare 'outcome' as boolean, or leave it out",
    ),
    "an amount and a label": (text(), {"target": ["age", "smoker"]}, "declare 'smoker' as number, or leave it out"),
    "no target": (text(), {"target": []}, "--target COLUMN"),
    "no population": (text(), {"population": None}, "--population N"),
    "no unit": (text(), {"unit": None}, "--unit COLUMN"),
    "a unit that is not there": (text(), {"unit": "patient"}, "no column 'patient'"),
    "no bounds": (text(), column("age", type="number"), "give low and high, from public knowledge"),
    "bounds the wrong way round": (text(), column("age", type="number", low=9, high=1), "low must be below high"),
    "a placeholder": (text(), column("age", type="number", low="FILL_IN", high=9), "fill in columns.age.low"),
    "an unknown type": (text(), column("age", type="integer"), "columns.age"),
    "an unknown treatment": (text(), column("age", type="number", low=0, high=9, missing="mean"), "columns.age"),
    "a category twice": (text(), column("sex", type="category", categories=["f", "f"]), "'f' is listed twice"),
    "a truth value as a category": (text(), column("sex", type="category", categories=[True, "m"]), "put it in quotes"),
    "rows left out of a range to buy": (
        text(),
        column("age", type="number", buy={"between": [0, 200]}, outside="drop"),
        "outside of a range that is bought is clipped",
    ),
    "a target's range to buy": (
        text(),
        {"target": ["age"]} | column("age", type="number", buy={"between": [0, 200]}),
        "the range of the target 'age' cannot be bought",
    ),
    "categories to buy": (text(), column("sex", type="category", categories="buy"), "say buy: {noise: 10}"),
    "a target's categories to buy": (
        text(),
        {"target": ["sex"]} | column("sex", type="category", buy={}),
        "the categories of the target 'sex' cannot be bought: they are its classes",
    ),
    "subgroups to buy": (
        text(),
        {"subgroups": ["sex"]} | column("sex", type="category", buy={}),
        "the categories of 'sex' cannot be bought: subgroups",
    ),
    "categories and a purchase": (text(), column("sex", type="category", categories=["f"], buy={}), "either"),
    "no categories": (text(), column("sex", type="category"), "give categories, from public knowledge"),
    "rows left out of categories to buy": (
        text(),
        column("sex", type="category", buy={}, unseen="drop"),
        "what is not among categories that are bought is `other`",
    ),
    "nothing to predict from": (
        text(),
        {"columns": {"outcome": SCHEMA["columns"]["outcome"]}, "others": "ignore"},
        "no column to predict from",
    ),
    "an unknown encoding": (text(), {"csv": {"encoding": "utf-9"}}, "unknown encoding"),
    "a subgroup that is no category": (text(), {"subgroups": ["age"]}, "subgroups: 'age'"),
    "faults of several rows": (
        text(row(age="true"), row(age="fifty")),
        {},
        "t.csv: 2 problems: row 41, column 'age': 'true' is not a number; write 1 and 0, or declare .*; row 42, column",
    ),
    "a truth value among numbers": (text(row(age="true")), {}, "row 41, column 'age': 'true' is not a number"),
    "a hexadecimal number": (text(row(age="0x10")), {}, "'0x10' is not a number"),
    "a huge whole number": (
        text(row(age="1" + "0" * 30)),
        column("age", type="number", low=0, high=120, outside="refuse"),
        "row 41, column 'age'",
    ),
    "a formula among numbers": (text(row(age="=1+1")), {}, "'=1\\+1' is not a number"),
    "a formula as a class": (text(row(outcome="=cmd()")), {}, "none of the declared categories .'=cmd"),
    "a NUL among numbers": (text(row(age="\x00")), {}, "row 41, column 'age'"),
    "blank lines": (b"\n\n\n", {}, "is empty"),
    "names that differ by case": (text(header="age,Sex,seen,smoker,outcome"), {}, "no column 'sex'"),
    "a column without a name": (text(header="age,,seen,smoker,outcome"), {}, "no column 'sex'"),
    "a target of nothing": (all_of("outcome", ""), {}, "column 'outcome': the value is missing"),
    "a year of five digits": (text(row(seen="99999-01-01")), {}, "'99999-01-01' is not a day"),
    "no text at all": (bytes(range(256)) * 10, {}, "not text in UTF-8"),
    "a spreadsheet": (b"PK\x03\x04" + bytes(range(200)), {}, "a spreadsheet"),
    "compressed, by another name": (b"\x1f\x8b\x08" + bytes(60), {}, "compressed, and cannot be unpacked"),
    "a negative population": (text(), {"population": -4}, "population: .*greater than 0"),
    "a population that is no number": (text(), {"population": float("nan")}, "population: .*finite"),
    "bounds that are not finite": (text(), column("age", type="number", low=0, high=float("inf")), "finite number"),
    "columns as a list": (text(), {"columns": ["age"]}, "a mapping `columns`"),
    "no columns": (text(), {"columns": {}}, "columns: .*at least 1"),
    "an unknown key of the schema": (text(), {"colour": 1}, "unknown key 'colour'"),
}


PARQUET: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "NaN": (lambda t: t.set_column(0, "age", pa.array([float("nan")] * 40)), "'nan' is not a finite number"),
    "numbers as lists": (lambda t: t.set_column(0, "age", pa.array([[1]] * 40)), "the column is of type list"),
    "days as numbers": (lambda t: t.set_column(2, "seen", pa.array([1] * 40)), "is of type int64, not a day"),
    "no rows": (lambda t: t.slice(0, 0), "no rows"),
    "two columns of one name": (lambda t: t.append_column("age", t.column(0)), "two columns 'age'"),
}

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
    return Kind(files, ("train", table, *options, *more), said)


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
            table, ("predict", "t.csv", "t.csv"), "cannot read t.csv/certificate.json"
        ),
        "predict: nowhere to write": Kind(
            {"n.csv": f"{NEW}\n50,f,2024-01-01,1\n".encode()},
            ("predict", "m", "n.csv", "--out", "no/p.csv"),
            "cannot write no/p.csv",
        ),
        "verify: no such folder": Kind({}, ("verify", "none"), "cannot read none/certificate.json"),
        "verify: a table": Kind(table, ("verify", "t.csv"), "cannot read t.csv/certificate.json"),
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
