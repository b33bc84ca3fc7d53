"""`discreet predict --json`: the figures of the .csv form, as objects."""

from __future__ import annotations

import csv
import datetime
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from folders import folder_of

from discreet.certificate.described import OnPublicRows
from discreet.certificate.model_spec import ModelSpec, Named
from discreet.cli.app import run
from discreet.data.tables import Encoder, Schema
from discreet.prediction import load, predict_table
from discreet.recipes.models.models import MODELS

SCHEMA = {
    "unit": "row",
    "population": 9,
    "columns": {
        "age": {"type": "number", "low": 0, "high": 100, "missing": "drop"},
        "grade": {"type": "category", "categories": ["1", "2"]},
        "cost": {"type": "number", "low": 0, "high": 50},
    },
}


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert run(["predict", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("target", "classes"), [("grade", True), ("cost", False)])
def test_of_a_table(target: str, classes: bool, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = Encoder(Schema.model_validate(SCHEMA | {"target": [target]}))
    arguments = {"kinds": list(encoder.kinds), "outputs": len(encoder.classes)}
    outputs = "classes" if classes else "numbers"
    spec = ModelSpec(Named("tabular", arguments), inputs=(2,), table=encoder.to_json(), outputs=outputs)
    folder_of(Path("m"), MODELS["tabular"](**arguments), spec)
    Path("n.csv").write_text("age,grade,cost\n5,1,3\n,2,4\n70,2,5\n")
    rows = list(csv.DictReader(lines(capsys, "m", "n.csv")))
    found = [json.loads(line) for line in lines(capsys, "m", "n.csv", "--json")]
    assert [{name: "" if v is None else str(v) for name, v in one.items()} for one in found] == rows
    assert set(found[1].values()) == {None}  # a row that the schema drops
    assert isinstance(found[0][target], str if classes else float)  # a class called "1" stays a name


def test_a_date_is_predicted_as_a_day(capsys: pytest.CaptureFixture[str]) -> None:
    """Also its interval, which is rounded outwards and stays within the declared days; and days that are kept."""
    due = {"type": "date", "low": "2021-01-01", "high": "2021-12-31"}
    encoder = Encoder(Schema.model_validate(SCHEMA | {"target": ["due"], "columns": SCHEMA["columns"] | {"due": due}}))
    arguments = {"kinds": list(encoder.kinds), "outputs": 1}
    seen = OnPublicRows(rows=400, errors={"0.9": 130.0})
    spec = ModelSpec(
        Named("tabular", arguments), inputs=(3,), table=encoder.to_json(), outputs="numbers", public_rows=seen
    )
    folder_of(Path("m"), MODELS["tabular"](**arguments), spec)
    when = pa.array([datetime.date(2020, 2, 29), datetime.date(2020, 3, 1)])
    pq.write_table(pa.table({"age": [5, None], "grade": ["1", "2"], "cost": [3, 4], "when": when}), "n.parquet")
    day = float(predict_table(load("m"), "n.parquet")[1][0, 0])
    due_day, last = (datetime.date(1970, 1, 1) + datetime.timedelta(n) for n in (round(day), math.ceil(day + 130)))
    assert datetime.date(2021, 1, 1) < due_day < datetime.date(2021, 5, 11)
    assert last < datetime.date(2021, 12, 31)
    wanted = {"when": "2020-02-29", "due": str(due_day), "due_low": "2021-01-01", "due_high": str(last)}
    header, first, dropped = lines(capsys, "m", "n.parquet", "--keep", "when")
    assert (header, first, dropped) == (",".join(wanted), ",".join(wanted.values()), "2020-03-01,,,")
    assert json.loads(lines(capsys, "m", "n.parquet", "--keep", "when", "--json")[0]) == wanted
    assert run(["predict", "m", "n.parquet", "--keep", "wen"]) == 2
    assert "--keep: n.parquet has no column 'wen'; it has age, grade, cost, when" in capsys.readouterr().err
    lines(capsys, "m", "n.parquet", "--out", "p.parquet")
    assert pq.read_table("p.parquet").schema.types == [pa.date32()] * 3


def test_of_arrays(capsys: pytest.CaptureFixture[str]) -> None:
    spec = ModelSpec(Named("linear", {"inputs": 4, "outputs": 3}), inputs=(4,), outputs="classes")
    folder_of(Path("m"), MODELS["linear"](4, 3), spec)
    np.save("n.npy", np.eye(4))
    found = [json.loads(line) for line in lines(capsys, "m", "n.npy", "--json")]
    assert [set(one) for one in found] == [{"class", "probability", "p(0)", "p(1)", "p(2)"}] * 4
    assert all(isinstance(one["class"], int) and 1 / 3 <= one["probability"] <= 1 for one in found)


def test_on_a_terminal_names_of_classes_move_no_cursor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = SCHEMA["columns"] | {"grade": {"type": "category", "categories": ["\x1b[2J1", "\x1b[2J2"]}}
    encoder = Encoder(Schema.model_validate(SCHEMA | {"target": ["grade"], "columns": columns}))
    arguments = {"kinds": list(encoder.kinds), "outputs": 2}
    spec = ModelSpec(Named("tabular", arguments), inputs=(2,), table=encoder.to_json(), outputs="classes")
    folder_of(Path("m"), MODELS["tabular"](**arguments), spec)
    Path("n.csv").write_text("age,cost\n5,3\n")
    assert "\x1b" in lines(capsys, "m", "n.csv")[1]  # a file is as the table was
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert lines(capsys, "m", "n.csv")[1].startswith("\\x1b[2J")


def test_columns_are_copied_and_parquet_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """Probabilities add up, the class is the most probable one, and a row that is dropped keeps its place and name."""
    encoder = Encoder(Schema.model_validate(SCHEMA | {"target": ["grade"]}))
    arguments = {"kinds": list(encoder.kinds), "outputs": 2}
    spec = ModelSpec(Named("tabular", arguments), inputs=(2,), table=encoder.to_json(), outputs="classes")
    folder_of(Path("m"), MODELS["tabular"](**arguments), spec)
    Path("n.csv").write_text("id;age;cost\na;5;3\nb;;4\nc;70;5\n")  # and another delimiter
    rows = list(csv.DictReader(lines(capsys, "m", "n.csv", "--keep", "id, cost")))
    assert [(row["id"], row["cost"]) for row in rows] == [("a", "3"), ("b", "4"), ("c", "5")]
    assert [row["grade"] == "" for row in rows] == [False, True, False]
    assert lines(capsys, "m", "n.csv", "--keep", "id,cost", "--out", "p.parquet") == []
    table = pq.read_table("p.parquet")
    assert table.column_names == ["id", "cost", "grade", "probability", "p(1)", "p(2)"]
    for row in table.slice(0, 1).to_pylist():
        shares = {"1": row["p(1)"], "2": row["p(2)"]}
        assert sum(shares.values()) == pytest.approx(1)
        assert row["probability"] == max(shares.values()) == shares[row["grade"]]
    assert run(["predict", "m", "n.csv", "--keep", "name"]) == 2
    assert "no column 'name'" in capsys.readouterr().err
    assert run(["predict", "m", "n.csv", "--out", "q.parquet", "--json"]) == 2
    assert "--json writes text" in capsys.readouterr().err
    assert run(["predict", "m", "n.csv", "--out", "q.XLSX"]) == 2
    assert "not written as .xlsx; name a .csv file" in capsys.readouterr().err
    assert run(["predict", "m", "n.csv", "--out", "q.jsonl"]) == 2
    assert "add --json" in capsys.readouterr().err
    assert not list(Path().glob("q.*"))
    assert lines(capsys, "m", "n.csv", "--out", "q.jsonl", "--json") == []
    assert len(Path("q.jsonl").read_text().splitlines()) == 3
