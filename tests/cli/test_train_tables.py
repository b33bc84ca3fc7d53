"""`discreet train TABLE` from a file to a published and verified folder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import yaml

from discreet.cli.app import run
from discreet.cli.options.table import TableOptions
from discreet.jobs import table_source as table_module
from discreet.jobs.table_source import recipe_for
from discreet.ledger import Ledger
from discreet.prediction import load, predict_frame
from discreet.training import training as training_module

SCHEMA: dict[str, Any] = {
    "unit": "row",
    "population": 300,
    "columns": {
        "patient": {"type": "ignore"},
        "age": {"type": "number", "low": 0, "high": 100},
        "ward": {"type": "category", "categories": ["A", "B", "C"], "weights": {"A": 2}},
        "smoker": {"type": "boolean"},
        "ill": {"type": "boolean"},
        "stay": {"type": "number", "low": 0, "high": 20},
    },
}
FEW = ["--set", "steps=4", "--set", "rate=0.2", "--set", "engine=bookkeeping"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)


def write(rows: int = 300, **changes: Any) -> list[str]:
    """patients.csv and public.csv, on which old people are ill; the arguments that train on them."""
    generator = np.random.Generator(np.random.PCG64(1))
    for name, count in (("patients", rows), ("public", 200)):
        age = generator.integers(20, 90, count)
        lines = [f"p{i // 3},{a},{'ABC'[i % 3]},{i % 2},{int(a > 55)},{a / 10:.1f}" for i, a in enumerate(age)]
        Path(f"{name}.csv").write_text("\n".join(["patient,age,ward,smoker,ill,stay", *lines]) + "\n")
    Path("s.yaml").write_text(yaml.safe_dump(SCHEMA | changes))
    return ["train", "patients.csv", "--schema", "s.yaml", "--epsilon", "8", "--delta", "1e-4", "--json"]


def trained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(arguments) == 0, capsys.readouterr().err
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run(["verify", facts["folder"]]) == 0
    capsys.readouterr()
    return facts


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target", "ill"], "--holdout 20% (with row_id in the schema), on private rows"),
        (["--target", "ill", "--unit", "patient"], "--holdout 20%, on private rows"),
        (["--target", "stay"], "nothing measures the model: --test TABLE does, on rows that may be public\n"),
        (["--target", "ill", "--test", "public.csv"], ""),
    ],
)
def test_where_nothing_measures_the_model_it_says_how(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [one for one in write() if one != "--json"]
    assert run([*arguments, *more, *FEW]) == 0
    found = capsys.readouterr().err
    assert said in found
    assert ("nothing measures" in found) is bool(said)


@pytest.mark.parametrize(
    ("more", "start"), [([], 50), (["steps=7"], 3), (["steps=7", "averaging.start=5"], 5), (["averaging.start=5"], 5)]
)
def test_the_second_half_of_the_steps_is_averaged(more: list[str], start: int) -> None:
    write()
    options = TableOptions(schema=Path("s.yaml"), target="ill")
    recipe = recipe_for(Path("patients.csv"), options, more, {"epsilon": 8.0, "delta": 1e-4})
    assert recipe.averaging is not None
    assert recipe.averaging.start == start


def test_subgroups_that_nothing_measures_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """What --holdout buys is of all rows."""
    columns = {"id": {"type": "ignore"}, **SCHEMA["columns"]}
    arguments = [one for one in write(columns=columns, subgroups=["ward", "smoker"], row_id="id") if one != "--json"]
    for name in ("patients", "public"):
        header, *rows = Path(f"{name}.csv").read_text().splitlines()
        lines = [f"id,{header}", *(f"{name}{place},{row}" for place, row in enumerate(rows))]
        Path(f"{name}.csv").write_text("\n".join(lines) + "\n")
    said = "the subgroups by ward, smoker are not measured"
    assert run([*arguments, "--target", "ill", "--holdout", "20%", *FEW]) == 0, capsys.readouterr().err
    assert said in capsys.readouterr().err
    assert run([*arguments, "--target", "ill", "--holdout", "20%", "--test", "public.csv", *FEW, "--out", "b"]) == 0
    assert said not in capsys.readouterr().err


def test_the_report_says_what_the_model_is_for_and_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--title", "Illness | <b>", "--note", "For nurses & doctors."]
    trained([*write(), "--target", "ill", "--test", "public.csv", *FEW, *words], capsys)
    report, card = (Path("patients-private", name).read_text() for name in ("report.html", "README.md"))
    for text in ("<h1>Illness | &lt;b&gt;</h1>", "For nurses &amp; doctors.", "number from 0 to 100", "ROC curve"):
        assert text in report
    for text in ("What the answers rest on", "Effect of ", "Calibration", "A linear model: of 300 people at epsilon 8"):
        assert text in report
    assert "Clip norm 0.4" in report
    assert "steps on batches" not in report  # they were set
    assert "# Illness \\| &lt;b&gt;" in card
    assert "| age | number from 0 to 100 |" in card
    facts = json.loads(Path("patients-private/model.json").read_text())
    assert facts["public_rows"]["rows"] == 200
    assert facts["public_rows"]["positive"] == "true"
    assert {one["column"] for one in facts["public_rows"]["weights"]} == {"age", "ward", "smoker", "stay"}


def test_a_title_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(), "--target", "ill", *FEW, "--title", "two\nlines"]) == 2
    assert "--title is one line of at most 2,000 printable characters" in capsys.readouterr().err


def test_predicted_numbers_have_intervals_where_public_rows_told_the_errors(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*write(), "--target", "stay"]
    trained([*arguments, *FEW, "--out", "untold"], capsys)
    assert run(["predict", "untold", "public.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "stay"
    trained([*arguments, "--test", "public.csv", *FEW, "--out", "told"], capsys)
    bound = json.loads(Path("told/model.json").read_text())["public_rows"]["errors"]["0.9"]
    assert run(["predict", "told", "public.csv"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "stay,stay_low,stay_high"
    found = np.array([[float(one) for one in row.split(",")] for row in rows])
    assert found[:, 1] == pytest.approx(np.maximum(found[:, 0] - bound, 0), abs=1e-6)
    assert found[:, 2] == pytest.approx(np.minimum(found[:, 0] + bound, 20), abs=1e-6)
    true = np.array([float(line.split(",")[-1]) for line in Path("public.csv").read_text().splitlines()[1:]])
    assert np.mean((found[:, 1] <= true) & (true <= found[:, 2])) >= 0.9
    assert f"at most <strong>{bound:.4g}</strong>" in Path("told/report.html").read_text()


def test_a_boolean_is_predicted_in_the_words_of_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    """The words of the file, and the certificate is accepted; `predict_frame` of the loaded model says them too."""
    columns = SCHEMA["columns"] | {"ill": {"type": "boolean", "words": ["gesund", "krank"]}}
    arguments = [*write(columns=columns), "--target", "ill", "--test", "public.csv", *FEW]
    for name in ("patients.csv", "public.csv"):
        header, *rows = Path(name).read_text().splitlines()
        fields = [row.split(",") for row in rows]
        said = [",".join([*one[:4], ("gesund", "krank")[int(one[4])], one[5]]) for one in fields]
        Path(name).write_text("\n".join([header, *said]) + "\n")
    facts = trained(arguments, capsys)
    assert {"recall: gesund", "sensitivity (krank)"} <= set(facts["public_test"])
    assert run(["predict", "patients-private", "public.csv"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "ill,probability,p(gesund),p(krank)"
    assert {row.split(",")[0] for row in rows} <= {"gesund", "krank"}
    frame = predict_frame(load("patients-private"), pa_csv.read_csv("public.csv"))
    assert frame["ill"].to_pylist() == [row.split(",")[0] for row in rows]
    assert json.loads(Path("patients-private/model.json").read_text())["public_rows"]["positive"] == "krank"
    assert "krank" in Path("patients-private/report.html").read_text()


def test_from_a_table_to_a_verified_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """It learns: older than 55 or not, in 100 steps, at epsilon 8 (accuracy 0.95 to 1 in 40 runs with fresh noise)."""
    arguments = write(subgroups=["ward"])
    steps = ["--set", "steps=100", "--set", "rate=0.2", "--set", "averaging.start=50", "--set", "evaluate_every=100"]
    facts = trained([*arguments, "--target", "ill", "--test", "public.csv", *steps], capsys)
    assert facts["folder"] == "patients-private"
    assert 7.9 < facts["epsilon"] <= 8.0
    assert facts["public_test"]["accuracy"] > 0.8
    assert {"auroc", "sensitivity (true)", "specificity (true)", "calibration error", "ward=B: auroc"} <= set(
        facts["public_test"]
    )
    assert json.loads(Path("patients-private/certificate.json").read_text())["public_evaluations"][-1]["auroc"] > 0.8
    assert sum(facts["public_test"][f"ward={name}: rows"] for name in "ABC") == 200
    assert "By subgroup of the public rows" in Path("patients-private/report.html").read_text()
    right = [
        line.split(",")[0] == str(row.split(",")[4] == "1").lower()
        for line, row in zip(predicted(capsys), Path("public.csv").read_text().splitlines()[1:], strict=True)
    ]
    assert np.mean(right) == pytest.approx(facts["public_test"]["accuracy"])
    names = {"patients.csv", "public.csv", "s.yaml", "patients-private", "patients-private.run"}
    assert {path.name for path in Path().iterdir()} == names


def predicted(capsys: pytest.CaptureFixture[str], head: str = "ill,probability,p(false),p(true)") -> list[str]:
    """What the published folder says of the public rows."""
    assert run(["predict", "patients-private", "public.csv"]) == 0, capsys.readouterr().err
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == head
    return lines


def test_rows_for_predictions_need_no_target_and_keep_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    columns = SCHEMA["columns"] | {"age": SCHEMA["columns"]["age"] | {"outside": "drop"}}
    trained([*write(columns=columns), "--target", "ill", *FEW], capsys)
    Path("public.csv").write_text("age,ward,smoker,stay\n30,A,1,2\n300,A,1,2\n60,B,0,3\n")
    lines = predicted(capsys)
    assert [bool(line.split(",")[0]) for line in lines] == [True, False, True]
    Path("public.csv").write_text("age,ward\n30,A\n")
    assert run(["predict", "patients-private", "public.csv"]) == 2
    assert "smoker" in capsys.readouterr().err


SHARES = ("accuracy", "baseline accuracy", "balanced accuracy", "calibration error")
BINARY = ("auroc", "sensitivity (true)", "specificity (true)")
WARDS = {f"recall: {a}" for a in "ABC"} | {f"rows: {a} as {b}" for a in "ABC" for b in "ABC"}


@pytest.mark.parametrize(
    ("target", "metrics"),
    [
        ("ward", {"loss", "auroc", "baseline balanced accuracy", *SHARES} | WARDS),
        ("stay", {"loss", "rmse", "mae", "baseline rmse"}),
        ("stay,age", {"loss"} | {f"{a}: {b}" for a in ("stay", "age") for b in ("rmse", "mae", "baseline rmse")}),
        ("ill,smoker", {"loss"} | {f"{a}: {b}" for a in ("ill", "smoker") for b in (*SHARES, *BINARY)}),
    ],
)
def test_tasks(target: str, metrics: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    facts = trained([*write(), "--target", target, "--test", "public.csv", *FEW], capsys)
    assert set(facts["public_test"]) == metrics
    heads = {"ward": "ward,probability,p(A),p(B),p(C)", "stay": "stay,stay_low,stay_high", "ill,smoker": "ill,smoker"}
    heads["stay,age"] = "stay,age"
    assert len(predicted(capsys, heads[target])) == 200


def test_several_numbers_in_their_units(capsys: pytest.CaptureFixture[str]) -> None:
    """Both are learned (of 20 runs the largest error was 0.18 of that of the mean), and shown by subgroup too."""
    columns = SCHEMA["columns"] | {"cost": {"type": "number", "low": 0, "high": 1000}}
    arguments = write(columns=columns, subgroups=["ward"])
    for name in ("patients.csv", "public.csv"):
        header, *rows = Path(name).read_text().splitlines()
        fields = [row.split(",") for row in rows]
        said = [
            ",".join([*one[:5], str(2 + 8 * "ABC".index(one[2])), str(900 - 400 * "ABC".index(one[2]))])
            for one in fields
        ]
        Path(name).write_text("\n".join([f"{header},cost", *said]) + "\n")
    more = ["--target", "stay,cost", "--test", "public.csv", "--set", "engine=bookkeeping"]
    assert run([*(one for one in arguments if one != "--json"), *more]) == 0, capsys.readouterr().err
    said_last = capsys.readouterr().out
    assert "stay: rmse " in said_last
    assert ", cost: rmse " in said_last
    assert run(["verify", "patients-private"]) == 0
    capsys.readouterr()
    found = np.array([[float(one) for one in line.split(",")] for line in predicted(capsys, "stay,cost")])
    wards = np.arange(200) % 3
    truth = np.stack([2 + 8 * wards, 900 - 400 * wards], axis=1)
    errors = np.sqrt(np.mean((found - truth) ** 2, axis=0))
    assert (errors < 0.4 * truth.std(axis=0)).all()
    last = json.loads(Path("patients-private/certificate.json").read_text())["public_evaluations"][-1]
    assert last["cost: rmse"] == pytest.approx(errors[1], rel=1e-4)
    assert "ward=B: cost: rmse" in last
    assert "ward=B: cost" in Path("patients-private/report.html").read_text()


def test_errors_of_days_are_in_days(capsys: pytest.CaptureFixture[str]) -> None:
    columns = SCHEMA["columns"] | {"left": {"type": "date", "low": "2020-01-01", "high": "2020-12-31"}}
    arguments = [one for one in write(columns=columns) if one != "--json"]
    for name in ("patients.csv", "public.csv"):
        header, *rows = Path(name).read_text().splitlines()
        dated = [f"{row},2020-{1 + i % 12:02}-{1 + i % 28:02}" for i, row in enumerate(rows)]
        Path(name).write_text("\n".join([f"{header},left", *dated]) + "\n")
    assert run([*arguments, "--target", "left", "--test", "public.csv", *FEW]) == 0
    found = re.search(r"rmse ([\d.]+) days \(the mean for all rows: ([\d.]+) days\)", capsys.readouterr().out)
    assert found is not None
    assert 90 < float(found[2]) < 120  # of days spread over a year
    for page in ("report.html", "README.md"):
        text = Path("patients-private", page).read_text()
        assert re.search(r"\brmse\W.{0,40}\d days\b", text), page
    assert re.search(r"an error of at most <strong>[\d.]+ days<", Path("patients-private/report.html").read_text())


def test_people_with_several_rows(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*write(population=100, rows_per_unit=3), "--unit", "patient", "--target", "ill", *FEW]
    pq.write_table(pa_csv.read_csv("patients.csv"), "patients.parquet")
    facts = trained(["train", "patients.parquet", *arguments[2:]], capsys)
    certificate = json.loads(Path(facts["folder"], "certificate.json").read_text())
    assert certificate["claim"]["unit"] == "user"
    assert certificate["plan"]["rows_per_unit"] == 3
    assert run([*arguments, "--population", "10", "--out", "x"]) == 2
    assert "the data has more different identifiers than" in capsys.readouterr().err


def test_a_range_is_bought_first_and_covered(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = SCHEMA["columns"] | {
        "age": {"type": "number", "buy": {"between": [-1000, 1000], "noise": 2, "bins": 100}}
    }
    arguments = [*write(columns=columns), "--target", "ill", *FEW]

    # A training that fails goes on with the range that was paid for.
    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training_module.Training, "take_steps", fails)
        assert run([name for name in arguments if name != "--json"]) == 130
    assert "buys the range of age, for epsilon " in capsys.readouterr().err
    low, high = json.loads(Path("patients-private.run/bought.json").read_text())["age"]
    assert (low, high) == (20.0, 100.0)  # bins of 20 years, of which those in use have 40 people at least
    assert run(["train", "--resume", "patients-private"]) == 0
    assert json.loads(Path("patients-private.run/bought.json").read_text()) == {"age": [low, high]}
    ledger = Ledger("patients-private.run/ledger.sqlite", create=False)
    assert ledger.charged_steps(json.loads(Path("patients-private.run/run.json").read_text())["run"]) == 5
    ledger.close()
    assert run(["verify", "patients-private"]) == 0
    certificate = json.loads(Path("patients-private/certificate.json").read_text())
    assert [event["query"] for event in certificate["plan"]["before"]] == ["histogram"]

    capsys.readouterr()
    assert run([*arguments, "--unit", "patient", "--out", "third"]) == 2
    assert "the range of age cannot be bought" in capsys.readouterr().err


def test_a_run_that_dies_in_the_purchase_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = SCHEMA["columns"] | {"age": {"type": "number", "buy": {"between": [0, 100], "noise": 2, "bins": 10}}}
    arguments = [*write(columns=columns), "--target", "ill", *FEW]
    real = table_module.buy_columns

    def dies(*given: Any) -> None:
        real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(table_module, "buy_columns", dies)
        assert run(arguments) == 130
    capsys.readouterr()
    assert run(["train", "--resume", "patients-private"]) == 2
    assert "those that were charged are lost; start a new run" in capsys.readouterr().err


def test_rows_are_held_out_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*write(row_id="patient"), "--target", "ill", "--holdout", "30%", *FEW]
    facts = trained(arguments, capsys)
    assert [one["metric"] for one in facts["bought"]] == ["holdout_size", "holdout_accuracy"]


def test_a_table_that_does_not_fit_the_budget_charges_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    shared = ["--ledger", "team.sqlite", "--dataset-id", "patients"]
    assert run(["ledger", "budget", *shared, "--epsilon", "1", "--delta", "1e-3"]) == 0
    assert run([*write(), "--target", "ill", *FEW, *shared]) == 3
    assert not Path("patients-private.run").exists()


def test_a_second_run_without_a_ledger_says_that_it_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """By the run folder of the first; a shared ledger adds up by itself."""
    arguments = [*write(), "--target", "ill", *FEW]
    trained(arguments, capsys)
    readme = Path("patients-private.run/README.md").read_text()
    assert "do not publish this folder" in readme
    arguments.remove("--json")
    assert run([*arguments, "--out", "again"]) == 0
    said = "patients.csv was trained on before: patients-private (epsilon 8); what is given away adds up."
    assert said in capsys.readouterr().err
    assert run([*arguments, "--out", "third", "--ledger", "l.sqlite", "--dataset-id", "patients"]) == 0
    assert "trained on before" not in capsys.readouterr().err
