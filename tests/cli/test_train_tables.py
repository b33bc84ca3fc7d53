"""`discreet train TABLE` from a file to a published and verified folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from table_runs import FEW, SCHEMA, predicted, trained, write

from discreet.cli.app import run
from discreet.jobs.tables import table_source as table_module
from discreet.jobs.tables.table_facts import TableFacts
from discreet.jobs.tables.table_source import recipe_for
from discreet.jobs.train import Job
from discreet.ledger import Ledger
from discreet.prediction import load, predict_frame
from discreet.training import training as training_module


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)


@pytest.mark.parametrize(
    ("more", "start"), [([], 50), (["steps=7"], 3), (["steps=7", "averaging.start=5"], 5), (["averaging.start=5"], 5)]
)
def test_the_second_half_of_the_steps_is_averaged(more: list[str], start: int) -> None:
    write()
    options = TableFacts(schema=Path("s.yaml"), target="ill")
    recipe = recipe_for(Path("patients.csv"), options, more, {"epsilon": 8.0, "delta": 1e-4})
    assert recipe.averaging is not None
    assert recipe.averaging.start == start


def test_a_title_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(), "--target", "ill", *FEW, "--title", "two\nlines"]) == 2
    assert "--title is one line of at most 2,000 printable characters" in capsys.readouterr().err
    assert run([*write(), "--target", "ill", *FEW, "--note", ""]) == 2
    assert "--note is empty; say it, or leave the option out" in capsys.readouterr().err


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


def test_rows_for_predictions_need_no_target_and_keep_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    columns = SCHEMA["columns"] | {"age": SCHEMA["columns"]["age"] | {"outside": "drop"}}
    trained([*write(columns=columns), "--target", "ill", *FEW], capsys)
    Path("public.csv").write_text("age,ward,smoker,stay\n30,A,1,2\n300,A,1,2\n60,B,0,3\n")
    lines = predicted(capsys)
    assert [bool(line.split(",")[0]) for line in lines] == [True, False, True]
    Path("public.csv").write_text("age,ward\n30,A\n")
    assert run(["predict", "patients-private", "public.csv"]) == 2
    assert "smoker" in capsys.readouterr().err


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


def test_a_budget_without_a_price_for_the_run_refuses_it_before_a_row_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = ["--ledger", "team.sqlite", "--dataset-id", "patients"]
    assert run(["ledger", "budget", *shared, "--filter", "gdp", "--epsilon", "1", "--delta", "1e-3"]) == 0
    monkeypatch.setattr(Job, "_run_on_table", lambda *_, **__: pytest.fail("the table is read"))
    assert run([*write(), "--target", "ill", *FEW, *shared]) == 2
    assert "the gdp budget of data set 'patients' has no price for this run" in capsys.readouterr().err
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
