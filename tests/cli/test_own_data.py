"""`discreet plan` and `discreet tune` take what `discreet train` takes: a table, texts, a folder of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from instead import instead
from PIL import Image

from discreet.cli.app import run
from discreet.jobs import tune
from discreet.plan import Plan
from discreet.plan.pydantic_base import validate
from discreet.training import Tuning

Capture = pytest.CaptureFixture[str]
SCHEMA: dict[str, Any] = {
    "unit": "row",
    "population": 300,
    "target": "ill",
    "row_id": "name",
    "columns": {
        "age": {"type": "number", "low": 0, "high": 100},
        "smoker": {"type": "boolean"},
        "ill": {"type": "boolean"},
        "person": {"type": "ignore"},
    },
}
BUDGET = ["--epsilon", "8", "--delta", "1e-4"]
TABLE = ["patients.csv", "--schema", "s.yaml", *BUDGET]
FEW = ["--set", "steps=5", "--set", "rate=0.2", "--set", "averaging.start=2", "--set", "engine=bookkeeping"]
GRID = ["--grid", "optimizer.lr=0.5,1", "--grid", "clip_norm=0.5,1"]


def write(**changes: Any) -> None:
    """s.yaml, and patients.csv and public.csv, in which old people are ill."""
    generator = np.random.Generator(np.random.PCG64(1))
    for name, count in (("patients", 300), ("public", 100)):
        age = generator.integers(20, 90, count)
        lines = [f"n{i},p{i // 3},{a},{i % 2},{int(a > 55)}" for i, a in enumerate(age)]
        Path(f"{name}.csv").write_text("\n".join(["name,person,age,smoker,ill", *lines]) + "\n")
    Path("s.yaml").write_text(yaml.safe_dump(SCHEMA | changes))


def planned(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert run(["plan", *arguments, "--no-probe", "--json"]) == 0, capsys.readouterr().err
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def test_the_plan_of_a_table_is_that_of_its_run_and_reads_no_row(capsys: Capture) -> None:
    """Without the table it is the same; and so it is with one that cannot be read."""
    write()
    Path("patients.csv").unlink()
    without = planned(capsys, *TABLE, *FEW)
    Path("patients.csv").write_bytes(b"\xff\x00 no table\n")
    assert planned(capsys, *TABLE, *FEW) == without
    assert run(["train", *TABLE, *FEW, "--dry-run", "--json"]) == 0
    plan = validate(Plan, json.loads(capsys.readouterr().out)["plan"], "plan")
    assert plan.guarantee().epsilon == without["epsilon"]
    assert (without["steps"], without["noise"]) == (5, [[plan.noise[0].multiplier, 5]])
    assert 7.9 < without["epsilon"] <= 8.0
    assert planned(capsys, *TABLE, *FEW, "--population", "600")["epsilon"] == without["epsilon"]  # the rate is given


def test_people_see_the_price_of_ranges_and_the_time(capsys: Capture) -> None:
    write(columns=SCHEMA["columns"] | {"age": {"type": "number", "buy": {"between": [0, 200], "noise": 2}}})
    assert run(["plan", *TABLE, *FEW]) == 0
    said = capsys.readouterr().out
    assert said.startswith("5 steps (1 epochs), batches of 60 expected examples out of 300\n")
    assert "buys the range of age, for epsilon " in said
    assert "seconds on this machine" in said


def test_the_plan_of_texts_and_of_images_reads_none(capsys: Capture) -> None:
    texts = ["texts.csv", "--text", "review", "--target", "kind", "--classes", "good,bad", "--unit", "row"]
    assert planned(capsys, *texts, "--population", "500", *BUDGET)["expected_batch"] == 500
    for kind in ("cat", "dog"):
        Path("photos", kind).mkdir(parents=True)
        Path("photos", kind, "1.png").write_bytes(b"no image")
    assert planned(capsys, "photos/", "--population", "500", *BUDGET)["population"] == 500
    assert run(["plan", "photos/", "--population", "500", *BUDGET]) == 0
    said = capsys.readouterr().out
    assert "declared public, and published with the model: the classes cat, dog; images as 28 x 28 pixels, grey" in said
    assert "on this machine" in said


def test_a_search_on_a_table_from_its_plan_to_predictions(capsys: Capture) -> None:
    """The winner is published with the schema and verified; predictions are those of the public metric. Other public
    rows join every step of every run."""
    write(subgroups=["smoker"])
    Path("joins.csv").write_text("\n".join(Path("public.csv").read_text().splitlines()[:51]))
    search = ["--trials", "2", *GRID[:2], "--holdout", "20%", "--test", "public.csv", "--public", "joins.csv", *FEW]
    assert run(["tune", *TABLE, *search, "--out", "best", "--json"]) == 0
    said = capsys.readouterr()
    assert "50 rows declared public join every step, with weight 0." in said.err
    facts = json.loads(said.out)
    assert set(facts["winner"]) == {"optimizer.lr"}
    assert {"auroc", "smoker=true: accuracy"} <= set(facts["public_test"])
    assert [one["metric"] for one in facts["bought"]] == ["holdout_accuracy"]
    certificate = json.loads(Path("best/certificate.json").read_text())
    assert certificate["search"]["winner"] == facts["winner"]
    assert certificate["public_batches"]["rows"] == 50
    assert run(["verify", "best"]) == 0
    capsys.readouterr()
    assert run(["predict", "best", "public.csv"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == "ill,probability,p(false),p(true)"
    wanted = [("false", "true")[int(row[-1])] for row in Path("public.csv").read_text().splitlines()[1:]]
    right = np.mean([line.split(",")[0] == one for line, one in zip(lines, wanted, strict=True)])
    assert right == pytest.approx(facts["public_test"]["accuracy"])


def given_to_the_search(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `Tuning` is given, before any run."""
    seen: dict[str, Any] = {}

    class Stop(BaseException):
        """No error that the command line would report."""

    class Watched(Tuning):
        def run(self) -> Any:
            raise Stop

        def __init__(self, *rest: Any, **options: Any) -> None:
            seen.update(options)
            super().__init__(*rest, **options)

    monkeypatch.setattr(tune, "Tuning", Watched)
    with pytest.raises(Stop):
        run(["tune", *arguments])
    return seen


def test_people_are_parted_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by numbers that depend on who else is in the table."""
    columns = {name: column for name, column in SCHEMA["columns"].items() if name != "person"}
    write(unit="person", rows_per_unit=3, population=100, columns=columns | {"name": {"type": "ignore"}}, row_id=None)
    seen = given_to_the_search([*TABLE, "--kind", "parts", "--grid", "optimizer.lr=0.5,1", *FEW], monkeypatch)
    assert seen["units"][:4] == ["p0", "p0", "p0", "p1"]


def test_images_that_score_runs_are_of_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder comes class by class; a part of it does not."""
    for name in ("photos", "public"):
        for kind, value in (("black", 0), ("white", 255)):
            for i in range(12):
                Path(name, kind).mkdir(parents=True, exist_ok=True)
                Image.new("L", (8, 8), max(0, value - i)).save(Path(name, kind, f"{i}.png"))
    options = ["--size", "8x8", "--population", "24", "--test", "public", "--set", "validation=0.5", *FEW]
    search = ["--trials", "2", "--grid", "optimizer.lr=0.5,1"]
    seen = given_to_the_search(["photos", *BUDGET, *options, *search], monkeypatch)
    for inputs, targets in (seen["public"].validation, seen["public"].test):
        assert len(inputs) == 12
        assert 2 < int(targets.sum()) < 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "patients.csv", *BUDGET], "a table needs a schema"),
        (["plan", "digits", "--schema", "s.yaml"], "--schema and its like go with a table"),
        (["plan", "patients.csv", "--schema", "s.yaml"], "--epsilon"),
        (["plan", "patients", *BUDGET], "patients is no recipe, no table"),
        (["plan", "s.yaml", *BUDGET], "--schema s.yaml"),
        (["plan", *TABLE, "--test", "nowhere.csv"], "--test: there is no file or folder nowhere.csv"),
        (
            ["plan", *instead(TABLE, "--schema", "typo.yaml")],
            "unknown key 'columns.age.number.lo'; known: type, low, high",
        ),
        (["plan", "photos", *BUDGET], "how many images there are"),
        (["plan", "photos", *BUDGET, "--mode", "colour"], "--mode is grey or rgb, not colour"),
        (["plan", "photos", *BUDGET, "--size", "24"], "--size: size: give width x height"),
        (["tune", "digits", *GRID, "--trials", "2", "--test", "public.csv"], "--test and its like go with a table"),
        (["tune", *TABLE, *GRID, "--trials", "2", "--data", "x"], "leave out --data"),
        (["tune", *TABLE, *GRID, "--trials", "2"], "--holdout 10%"),
        (["tune", *TABLE, *GRID, "--trials", "2", "--set", "validation=0.5"], "--test declares public"),
        (
            ["tune", *instead(TABLE, "--schema", "buys.yaml"), *GRID, "--trials", "2", "--holdout", "20%"],
            "the range of age would be bought",
        ),
        (
            ["tune", *instead(TABLE, "--schema", "nameless.yaml"), *GRID, "--kind", "parts", *FEW],
            "row_id in the schema",
        ),
    ],
)
def test_refusals_are_one_line_and_nothing_is_written(arguments: list[str], message: str, capsys: Capture) -> None:
    write()
    buys = SCHEMA["columns"] | {"age": {"type": "number", "buy": {"between": [0, 200], "noise": 2}}}
    Path("buys.yaml").write_text(yaml.safe_dump(SCHEMA | {"columns": buys}))
    typo = SCHEMA["columns"] | {"age": {"type": "number", "lo": 0, "high": 9}}
    Path("typo.yaml").write_text(yaml.safe_dump(SCHEMA | {"columns": typo}))
    nameless = {name: value for name, value in SCHEMA.items() if name != "row_id"}
    columns = SCHEMA["columns"] | {"name": {"type": "ignore"}}
    Path("nameless.yaml").write_text(yaml.safe_dump(nameless | {"columns": columns}))
    for kind in ("cat", "dog"):
        Path("photos", kind).mkdir(parents=True)
    before = sorted(Path().iterdir())
    assert run(arguments) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("discreet: ")
    assert message in error
    assert sorted(Path().iterdir()) == before
