"""What `discreet train TABLE` says of the model: metrics of every task, their units, and what nothing measures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from table_runs import FEW, SCHEMA, predicted, trained, write

from discreet.cli.app import run


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target", "ill"], "--holdout 20% (with row_id in a schema), on private rows"),
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


@pytest.mark.parametrize(("missing", "code"), [("drop", 2), ("flag", 0)])
def test_a_row_that_is_dropped_changes_no_numbers_that_hold_rows_out(
    missing: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """With one gap in the first row, five in six of the rows held out were others."""
    columns = SCHEMA["columns"] | {"age": SCHEMA["columns"]["age"] | {"missing": missing}}
    more = ["--target", "ill", "--holdout", "20%", "--set", "adjacency=zero_out", *FEW]
    assert run([*write(columns=columns), *more]) == code
    said = "changes if 'age' drops a row above; say which column names the rows (row_id in the schema)"
    assert (said in capsys.readouterr().err) is (code == 2)


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


def test_public_targets_out_of_range_are_counted_where_metrics_clip_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Stays are up to 8.9, and beyond the declared 6 they count as 6: so do the errors. Beyond 8.5 are few."""
    stay = {"type": "number", "low": 0, "high": 6, "outside": "clip"}
    columns = SCHEMA["columns"] | {"stay": stay}
    arguments = [*write(columns=columns), "--target", "stay", "--test", "public.csv", *FEW]
    stays = [float(line.split(",")[-1]) for line in Path("public.csv").read_text().splitlines()[1:]]
    beyond = sum(stay > 6 for stay in stays)
    facts = trained(arguments, capsys)
    assert facts["public_test"]["targets clipped"] == beyond > 50
    assert facts["public_test"]["baseline rmse"] == pytest.approx(np.std(np.minimum(stays, 6)))
    for page in ("report.html", "README.md"):
        said = Path(f"patients-private/{page}").read_text()
        assert "Some public targets are outside of the declared range: they count as its end" in said
        assert "so errors on them are larger than these say." in said
        assert re.search(rf"targets clipped\W.*\b{beyond}\b", said)
    assert run([*(one for one in arguments if one != "--json"), "--out", "again"]) == 0
    assert f"; {beyond} targets clipped)" in capsys.readouterr().out
    assert "0.9" not in json.loads(Path("again/model.json").read_text())["public_rows"]["errors"]
    assert run(["predict", "again", "public.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "stay"
    arguments = [*write(columns=columns | {"stay": stay | {"high": 8.5}}), *arguments[-len(FEW) - 4 :]]
    trained([*arguments, "--out", "few"], capsys)
    assert run(["predict", "few", "public.csv"]) == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header == "stay,stay_low,stay_high"
    ends = [[float(one) for one in row.split(",")] for row in rows]
    held = [low <= stay <= high for (_, low, high), stay in zip(ends, stays, strict=True)]
    assert 0.9 <= np.mean(held) < 1
    beside = Path("few/report.html").read_text().partition("nine in ten")[2].partition("</p>")[0]
    # one cell of the grid for both sentences
    assert "with each answer. Some public targets" in beside
    assert "in all other figures here" in beside


def test_no_error_of_encoded_numbers_stands_beside_those_in_the_unit_of_the_target(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*write(), "--target", "stay", "--test", "public.csv", "--set", "validation=0.5"]
    found = trained([*arguments, *FEW], capsys)["public_test"]
    assert {name for name in found if "rmse" in name} == {"rmse", "baseline rmse"}


@pytest.mark.parametrize("target", ["stay", "ill,smoker"])
def test_accuracy_that_does_not_exist_is_not_bought_and_it_says_what_can_be(
    target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*write(), "--target", target, "--unit", "patient", *FEW]
    assert run([*arguments, "--holdout", "20%"]) == 2
    said = capsys.readouterr().err
    (metrics,) = re.findall(r"metrics=\[.*\]", said)
    assert trained([*arguments, "--set", "holdout=0.2", "--set", metrics], capsys)["epsilon"] < 8


@pytest.mark.parametrize(("target", "score"), [("ward", "accuracy"), ("stay", "rmse"), ("ill,smoker", "loss")])
def test_a_search_is_scored_by_a_metric_of_its_task(
    target: str, score: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, *arguments = [one for one in write() if one != "--json"]
    search = ["--trials", "3", "--grid", "optimizer.lr=0.5,1", "--test", "public.csv", "--set", "validation=0.5"]
    assert run(["tune", *arguments, "--target", target, *search, *FEW]) == 0, capsys.readouterr().err
    assert f"the best by validation {score} is released alone" in capsys.readouterr().err


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
