"""Tables that cannot be used for training, with what the line of the error says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

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
    "not UTF-8": (text(row(sex="\xfc")).decode().encode("latin-1"), {}, "not text in UTF-8: see line 42;"),
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
    **{
        f"rows that may change the next ones, {name}": (text(), {"csv": {"encoding": name}}, "one row may change")
        for name in ("hz", "iso2022_jp_2", "ISO-2022-KR", "raw_unicode_escape", "unicode_escape", "utf7")
    },
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
