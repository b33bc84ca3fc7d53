"""`discreet train` and `discreet verify`, as people and scripts use them."""

from __future__ import annotations

import itertools
import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from discreet.cli.app import run
from discreet.ledger import Budget, Ledger
from discreet.plan import Plan
from discreet.training import training as training_module

FAST = ["--set", "steps=3", "--set", "evaluate_every=3"]
RECIPE: dict[str, Any] = {
    "data": "npz",
    "model": {"name": "linear", "inputs": 4, "outputs": 3},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "population": 30,
    "rate": 0.5,
    "steps": 3,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)


def arrays(**changes: Any) -> dict[str, Any]:
    generator = np.random.Generator(np.random.PCG64(0))
    x, y = generator.normal(size=(30, 4)), np.arange(30) % 3
    return {"x_train": x, "y_train": y, "x_test": x[:6], "y_test": y[:6]} | changes


def with_row(row: int, value: float) -> np.ndarray:
    x = arrays()["x_train"]
    x[row, 2] = value
    return x


def write(recipe: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    """Write mine.yaml and mine.npz; the arguments that train on them."""
    Path("mine.yaml").write_text(yaml.safe_dump(RECIPE | (recipe or {})))
    np.savez("mine.npz", **{name: array for name, array in arrays(**changes).items() if array is not None})
    return ["train", "mine.yaml", "--data", "mine.npz"]


def assert_one_line_on_engine_and_noise(err: str) -> None:
    line = (
        r"discreet: engine \w+: within \S+ of the clip norm from reference, .*; noise \w+: \d+ values have the scale .*"
    )
    assert re.fullmatch(line + "\n", err)


def test_digits_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "digits", *FAST]) == 0
    out, err = capsys.readouterr()
    assert_one_line_on_engine_and_noise(err)
    assert out.startswith("digits-private: certified epsilon 1.0000 at delta 0.0001, public test accuracy ")
    assert out.count("\n") == 1
    assert {path.name for path in Path("digits-private").iterdir()} == {
        "model.safetensors",
        "model.json",
        "verify.py",
        "certificate.json",
        "plan.yaml",
        "report.html",
        "README.md",
    }
    assert not Path("digits-private.run/key").exists()
    assert not Path("digits-private.run/checkpoint.pt").exists()
    assert run(["verify", "digits-private"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "ACCEPTED" in out
    assert "FAILED" not in out
    # A second run must not overwrite the first.
    assert run(["train", "digits", *FAST]) == 2
    out, err = capsys.readouterr()
    assert "digits-private exists already" in err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(), "--out", "deep/model", "--epsilon", "2", "--delta", "1e-3", "--json"]) == 0
    out, err = capsys.readouterr()
    assert_one_line_on_engine_and_noise(err)
    facts = json.loads(out)
    assert set(facts) == {"folder", "epsilon", "delta", "steps", "public_test", "bought"}
    assert facts["folder"] == "deep/model"
    assert 1.9 < facts["epsilon"] <= 2.0
    assert facts["delta"] == 1e-3
    assert facts["steps"] == 3
    assert set(facts["public_test"]) == {"loss", "accuracy"}
    assert run(["verify", "deep/model", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"] is True


def test_without_public_data_no_metric_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(x_test=None, y_test=None), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["public_test"] == {}


def test_regression_on_real_targets(capsys: pytest.CaptureFixture[str]) -> None:
    targets = np.zeros((30, 3))
    assert run([*write(y_train=targets, x_test=None, y_test=None)]) == 0
    assert "accuracy" not in capsys.readouterr().out


def test_population_may_differ_from_the_length_of_the_data() -> None:
    assert run([*write(), "--population", "1000"]) == 0
    assert yaml.safe_load(Path("mine-private/plan.yaml").read_text())["population"] == 1000


def test_a_dry_run_charges_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "digits", "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["noise"][0]["steps"] == 40
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("name", "check"), [("model.safetensors", "model"), ("certificate.json", "epsilon"), ("plan.yaml", "plan")]
)
def test_a_tampered_folder_exits_with_one(name: str, check: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(write()) == 0
    path = Path("mine-private", name)
    if name == "model.safetensors":
        path.write_bytes(path.read_bytes()[:-1] + b"\x55")
    elif name == "plan.yaml":
        path.write_text(path.read_text().replace("add_remove", "zero_out"))
    else:
        facts = json.loads(path.read_text())
        facts["claim"]["epsilon"] *= 0.9
        path.write_text(json.dumps(facts))
    capsys.readouterr()
    assert run(["verify", "mine-private"]) == 1
    out = capsys.readouterr().out
    assert f"FAILED  {check}:" in out
    assert "REJECTED" in out
    assert run(["verify", "mine-private", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["accepted"] is False


def refused(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one line on standard error that says what and where, and nothing charged."""
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("discreet: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert not list(Path().rglob("ledger.sqlite*"))
    assert not list(Path().rglob("certificate.json"))
    assert not list(Path().rglob("key"))


BAD_USAGE: dict[str, tuple[list[str], list[str]]] = {
    "unknown recipe": (["train", "sonnets"], ["sonnets", "digits", ".yaml"]),
    "missing recipe file": (["train", "nowhere.yaml"], ["nowhere.yaml", "check the path"]),
    "epsilon 0": (["train", "--epsilon", "0"], ["epsilon", "greater than 0"]),
    "epsilon negative": (["train", "--epsilon=-1"], ["epsilon", "greater than 0"]),
    "epsilon NaN": (["train", "--epsilon", "nan"], ["epsilon", "finite"]),
    "epsilon infinite": (["train", "--epsilon", "inf"], ["epsilon", "finite"]),
    "epsilon a word": (["train", "--epsilon", "small"], ["--epsilon", "number"]),
    "delta 1": (["train", "--delta", "1"], ["delta", "less than 1"]),
    "delta 0": (["train", "--delta", "0"], ["delta", "greater than 0"]),
    "delta NaN": (["train", "--delta", "nan"], ["delta", "finite"]),
    "population 0": (["train", "--population", "0"], ["population", "greater than 0"]),
    "unknown key": (["train", "--set", "stepz=3"], ["stepz", "known:", "steps"]),
    "--set without =": (["train", "--set", "steps"], ["--set", "key=value", "steps"]),
    "--set without a key": (["train", "--set", "=3"], ["--set", "key=value"]),
    "--set of broken YAML": (["train", "--set", "steps=[3"], ["--set", "steps=[3", "YAML"]),
    "--set below a number": (["train", "--set", "steps.more=3"], ["--set", "steps"]),
    "steps 0": (["train", "--set", "steps=0"], ["steps", "1"]),
    "rate above 1": (["train", "--set", "rate=1.5"], ["rate", "less than or equal to 1"]),
    "unknown optimizer": (["train", "--set", "optimizer.name=magic"], ["optimizer", "sgd"]),
    "unknown model": (["train", "--set", "model.name=magic"], ["model", "linear"]),
    "unknown data": (["train", "--set", "data=magic"], ["data", "digits"]),
    "argument of the optimizer": (["train", "--set", "optimizer.speed=1"], ["sgd", "speed"]),
    "negative learning rate": (["train", "--set", "optimizer.lr=-1"], ["sgd", "learning rate"]),
    "unknown engine": (["train", "--set", "engine=magic"], ["engine", "magic", "vmap", "exact"]),
    "unknown noise": (["train", "--set", "noise=pink"], ["noise", "pink", "fast", "exact"]),
    "--finish without --resume": (["train", "digits", "--finish"], ["--finish", "--resume DIR"]),
    "--dataset-id without a ledger": (["train", "digits", "--dataset-id", "patients"], ["--ledger"]),
    "--dataset-id that cannot be printed": (
        ["train", "digits", *FAST, "--dataset-id", "a\nb", "--ledger", "shared.sqlite"],
        ["printable"],
    ),
    "ledger at an address that is not served": (
        ["train", "digits", *FAST, "--ledger", "http://example.org/ledger"],
        ["postgresql://"],
    ),
    "population far below the rows": (["train", "digits", "--population", "1000"], ["1437 rows", "population"]),
    "--resume of nothing": (["train", "--resume", "nowhere"], ["nowhere", "OUT.run"]),
    "--resume with a recipe": (["train", "digits", "--resume", "nowhere"], ["--resume", "leave out"]),
    "--resume with --epsilon 0": (["train", "--resume", "nowhere", "--epsilon", "0"], ["--resume", "leave out"]),
    "--resume with --set": (["train", "--resume", "nowhere", "--set", "steps=9"], ["--resume", "leave out"]),
    "--resume with --out": (["train", "--resume", "nowhere", "--out", "x"], ["--resume", "leave out"]),
    "--resume with --dataset-id": (["train", "--resume", "nowhere", "--dataset-id", "x"], ["--resume", "leave out"]),
    "unknown option": (["train", "--frobnicate"], ["--frobnicate"]),
    "replace_one": (["train", "--set", "adjacency=replace_one"], ["replace_one", "add_remove"]),
    "folder to verify is missing": (["verify", "nowhere"], ["nowhere"]),
}


@pytest.mark.parametrize("case", BAD_USAGE)
def test_bad_usage(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(*BAD_USAGE[case], capsys)


BAD_DATA: dict[str, tuple[dict[str, Any], list[str]]] = {
    "NaN feature": ({"x_train": with_row(17, np.nan)}, ["feature", "row 17", "repair"]),
    "infinite feature": ({"x_train": with_row(0, np.inf)}, ["feature", "row 0"]),
    "too large for float32": ({"x_train": with_row(3, 1e300)}, ["feature", "row 3"]),
    "label too large": ({"y_train": np.full(30, 3)}, ["label 3", "row 0", "3 classes"]),
    "label negative": ({"y_train": np.arange(30) % 3 - 1}, ["label -1", "row 0"]),
    "lengths differ": ({"y_train": np.arange(29) % 3}, ["30 inputs", "29 targets"]),
    "no rows": ({"x_train": np.zeros((0, 4)), "y_train": np.zeros(0, int)}, ["empty"]),
    "wrong width": ({"x_train": np.zeros((30, 5))}, ["shape (5,)"]),
    "wrong width, regression": (
        {"x_train": np.zeros((30, 5)), "y_train": np.zeros((30, 3)), "x_test": None, "y_test": None},
        ["shape (5,)"],
    ),
    "missing array": ({"y_train": None}, ["y_train", "x_train"]),
    "words": ({"x_train": np.full((30, 4), "a")}, ["x_train", "numbers"]),
    "objects": ({"x_train": np.full((30, 4), None)}, ["mine.npz", "plain arrays"]),
    "public label too large": ({"y_test": np.full(6, 9)}, ["public_test", "label 9"]),
    "public rows missing": ({"x_test": np.zeros((0, 4)), "y_test": np.zeros(0, int)}, ["public_test", "empty"]),
}


@pytest.mark.parametrize("case", BAD_DATA)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_bad_data(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    changes, words = BAD_DATA[case]
    refused(write(**changes), words, capsys)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_target_that_is_not_finite(value: float, capsys: pytest.CaptureFixture[str]) -> None:
    targets = np.zeros((30, 3))
    targets[21, 1] = value
    refused(write(y_train=targets, x_test=None, y_test=None), ["target", "row 21"], capsys)


def as_is() -> None:
    write()


def no_npz() -> None:
    write()
    Path("mine.npz").unlink()


def text_as_npz() -> None:
    write()
    Path("mine.npz").write_text("x,y\n1,2\n")


def folder_as_npz() -> None:
    no_npz()
    Path("mine.npz").mkdir()


def broken_yaml() -> None:
    write()
    Path("mine.yaml").write_text("{[")


def list_as_recipe() -> None:
    write()
    Path("mine.yaml").write_text("- 1\n")


def negative_width() -> None:
    write({"model": {"name": "linear", "inputs": -4, "outputs": 3}})


def existing_run_folder() -> None:
    write()
    Path("mine-private.run").mkdir()


def existing_folder() -> None:
    write()
    Path("mine-private").mkdir()
    Path("mine-private/notes").write_text("mine")


BAD_FILES: list[tuple[Callable[[], None], list[str], list[str]]] = [
    (as_is, [], ["--data FILE.npz"]),
    (no_npz, ["--data", "mine.npz"], ["mine.npz", "cannot read"]),
    (text_as_npz, ["--data", "mine.npz"], ["mine.npz", "numpy.savez"]),
    (folder_as_npz, ["--data", "mine.npz"], ["mine.npz"]),
    (broken_yaml, ["--data", "mine.npz"], ["mine.yaml", "not valid YAML"]),
    (list_as_recipe, ["--data", "mine.npz"], ["mine.yaml", "mapping"]),
    (negative_width, ["--data", "mine.npz"], ["linear", "arguments"]),
    (existing_run_folder, ["--data", "mine.npz"], ["mine-private.run", "exists"]),
    (existing_folder, ["--data", "mine.npz"], ["mine-private", "not empty", "another"]),
]


@pytest.mark.parametrize(("prepare", "options", "words"), BAD_FILES, ids=[case[0].__name__ for case in BAD_FILES])
def test_bad_files(
    prepare: Callable[[], None], options: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    prepare()
    refused(["train", "mine.yaml", *options], words, capsys)


def test_an_unwritable_parent_is_refused_before_training(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = write()
    Path("file").write_text("x")
    refused([*arguments, "--out", "file/model"], ["file/model"], capsys)


# Engines, noise, shared ledgers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["digits", "mine"])
def test_exact_engine_and_noise_end_to_end(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"engine": "exact", "noise": "exact", "steps": 2}
    if name == "digits":
        arguments = ["train", "digits", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]
    else:
        arguments = write(keys)
    assert run([*arguments, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["steps"] == 2
    certificate = json.loads(Path(facts["folder"], "certificate.json").read_text())
    assert certificate["mechanism"]["engine"] == certificate["mechanism"]["noise"] == "exact"
    assert certificate["plan"]["noise"][0]["steps"] == 2
    assert not any("ziggurat" in assumption or "2^-20" in assumption for assumption in certificate["assumptions"])
    assert run(["verify", facts["folder"]]) == 0
    assert run(["ledger", "verify", "--ledger", f"{facts['folder']}.run/ledger.sqlite", facts["folder"]]) == 0


def budget(epsilon: float, delta: float = 1e-3) -> None:
    ledger = Ledger("shared.sqlite")
    ledger.set_budget("patients", Budget(epsilon, delta))
    ledger.close()


SHARED = ["--ledger", "shared.sqlite", "--dataset-id", "patients"]


def test_a_budget_that_is_exceeded_exits_with_three_and_leaves_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    budget(4.0)  # one run of epsilon 3, not two
    assert run([*write(), *SHARED, "--out", "first"]) == 0
    capsys.readouterr()
    before = Ledger("shared.sqlite").verify()
    assert run([*write(), *SHARED, "--out", "second"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("discreet: ")
    assert err.count("\n") == 1
    assert "patients" in err
    assert not Path("second").exists()
    assert not Path("second.run").exists()
    assert Ledger("shared.sqlite").verify() == before
    assert run([*write(), *SHARED, "--out", "second", "--epsilon", "0.5"]) == 0  # and what is left can be spent


def test_a_budget_counts_the_whole_run_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    budget(2.9)
    assert run([*write(), *SHARED]) == 3
    assert list(Path().glob("mine-private*")) == []


def test_the_shared_ledger_may_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    budget(4.0)
    monkeypatch.setenv("DISCREET_LEDGER", "shared.sqlite")
    assert run([*write(), "--dataset-id", "patients"]) == 0
    assert not Path("mine-private.run/ledger.sqlite").exists()
    assert run([*write(), "--dataset-id", "patients", "--out", "again"]) == 3


# Interrupted runs -----------------------------------------------------------------------------------------------------


@contextmanager
def stopping_after(steps: int) -> Iterator[None]:
    """Runs of `discreet train` are asked to stop, as by Ctrl-C, once they have taken so many steps."""

    @contextmanager
    def stop_requests() -> Iterator[Callable[[], int | None]]:
        taken = itertools.count(1)
        yield lambda: signal.SIGINT if next(taken) >= steps else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "stop_requests", stop_requests)
        yield


def interrupted(capsys: pytest.CaptureFixture[str], *options: str) -> None:
    """A run of 60 steps, charged in blocks of 50, that was stopped after ten of them."""
    with stopping_after(10):
        assert run([*write({"steps": 60, "evaluate_every": 5}), "--out", "out", *options]) == 128 + signal.SIGINT
    out, err = capsys.readouterr()
    assert out == ""
    checked, stopped = err.splitlines(keepends=True)
    assert_one_line_on_engine_and_noise(checked)
    assert stopped.startswith("discreet: stopped after step 10 of 60; ")
    assert "--resume out.run --finish" in err
    assert not Path("out").exists()
    assert Path("out.run/checkpoint.pt").exists()


def charged(ledger: str = "out.run/ledger.sqlite") -> int:
    opened = Ledger(ledger)
    try:
        opened.verify()
        return sum(entry.steps for entry in opened.entries())
    finally:
        opened.close()


@pytest.mark.parametrize("folder", ["out.run", "out"])
def test_resume_goes_on_to_the_end(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    assert run(["train", "--resume", folder, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["steps"] == charged() == 60
    certificate = json.loads(Path("out/certificate.json").read_text())
    steps = [evaluation["step"] for evaluation in certificate["public_evaluations"]]
    assert steps == [5, 10, 55, 60]  # 11 to 50 were charged and are lost
    assert [one["attempt"] for one in certificate["ledger"]["entries"] if one["kind"] == "attempt"] == [0, 1]
    assert run(["verify", "out"]) == 0


def test_finish_publishes_what_there_is_under_the_whole_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    assert charged() == 50
    assert run(["train", "--resume", "out.run", "--finish", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["steps"] == charged() == 50
    certificate = json.loads(Path("out/certificate.json").read_text())
    plan = Plan.model_validate(certificate["plan"])
    assert facts["epsilon"] == certificate["claim"]["epsilon"] == plan.guarantee().epsilon
    assert plan.steps == 60
    assert certificate["charged_steps"] == 50
    assert [evaluation["step"] for evaluation in certificate["public_evaluations"]] == [5, 10]
    assert facts["public_test"].keys() == {"loss", "accuracy"}
    assert run(["verify", "out"]) == 0
    assert not Path("out.run/key").exists()
    assert not Path("out.run/checkpoint.pt").exists()
    capsys.readouterr()
    for options in ([], ["--finish"]):
        assert run(["train", "--resume", "out.run", *options]) == 2
        assert "exists already" in capsys.readouterr().err
    Path("out").rename("elsewhere")
    assert run(["train", "--resume", "out.run"]) == 2
    assert "is published" in capsys.readouterr().err


def test_a_run_may_be_stopped_twice(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    with stopping_after(4):
        assert run(["train", "--resume", "out.run"]) == 130
    assert "stopped after step 54 of 60" in capsys.readouterr().err
    assert run(["train", "--resume", "out.run"]) == 0
    assert charged() == 60


def test_resuming_with_a_shared_ledger_is_charged_to_the_budget_once(capsys: pytest.CaptureFixture[str]) -> None:
    budget(4.0)
    interrupted(capsys, *SHARED)
    assert run(["train", "--resume", "out.run"]) == 0
    assert charged("shared.sqlite") == 60
    opened = Ledger("shared.sqlite")
    assert opened.budget("patients")[1].runs == 1
    opened.close()


def no_job() -> None:
    Path("out.run").mkdir()


def job_of(text: str) -> Callable[[], None]:
    def prepare() -> None:
        Path("out.run").mkdir()
        Path("out.run/job.json").write_text(text)

    return prepare


WHOLE = {"recipe": RECIPE, "data": "mine.npz", "target": "out"}
NONSENSE: dict[str, tuple[Callable[[], None], list[str]]] = {
    "no folder": (as_is, ["out.run", "not the folder of a run"]),
    "empty folder": (no_job, ["out.run", "not the folder of a run"]),
    "not JSON": (job_of("{["), ["out.run", "not the folder of a run"]),
    "list": (job_of("[]"), ["out.run", "not the folder of a run"]),
    "no target": (job_of(json.dumps({"recipe": RECIPE, "data": None})), ["out.run", "not the folder of a run"]),
    "strange recipe": (job_of(json.dumps(WHOLE | {"recipe": RECIPE | {"steps": -1}})), ["job.json", "steps"]),
    "never started": (job_of(json.dumps(WHOLE)), ["out.run", "no run that can be resumed"]),
}


@pytest.mark.parametrize("case", NONSENSE)
@pytest.mark.parametrize("options", [[], ["--finish"]], ids=["", "finish"])
def test_nonsense_cannot_be_resumed(case: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    prepare, words = NONSENSE[case]
    write()
    prepare()
    refused(["train", "--resume", "out.run", *options], words, capsys)


def test_a_resumed_run_whose_checkpoint_is_garbage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    Path("out.run/checkpoint.pt").write_bytes(b"garbage")
    assert run(["train", "--resume", "out.run"]) == 2
    err = capsys.readouterr().err
    assert "checkpoint" in err
    assert err.count("\n") == 1
    assert charged() == 50


def test_a_resumed_run_with_another_recipe_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    interrupted(capsys)
    job = json.loads(Path("out.run/job.json").read_text())
    job["recipe"]["steps"] = 61
    Path("out.run/job.json").write_text(json.dumps(job))
    assert run(["train", "--resume", "out.run"]) == 2
    assert "differs" in capsys.readouterr().err
    assert charged() == 50


PEOPLE = {"population": 10, "unit": "user", "rows_per_unit": 2}
NAMES = np.array([f"person {i % 10}" for i in range(30)])


def test_people_with_several_rows_are_protected_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write(PEOPLE, units_train=NAMES), "--out", "out"]) == 0
    assert run(["verify", "out"]) == 0
    assert "unit user" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "units", "message"),
    [
        (PEOPLE, None, "say whose each row is"),
        ({}, NAMES, "make the plan with unit='user'"),
        (PEOPLE, NAMES[:-1], "29 identifiers but the data has 30 rows"),
        (PEOPLE | {"population": 7}, NAMES, "10 different identifiers, more than the 8"),
        ({"rows_per_unit": 2}, None, "goes with unit='user'"),
        (PEOPLE | {"unit": "family"}, NAMES, "unit"),
    ],
)
def test_bad_units(
    recipe: dict[str, Any], units: np.ndarray | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(recipe, units_train=units)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert not Path("mine-private").exists()


def test_a_recipe_names_how_the_learning_rate_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's StepLR by name: halved after every second step."""
    seen: list[float] = []
    real = torch.optim.SGD.step

    def step(self: Any, *rest: Any, **more: Any) -> Any:
        seen.append(self.param_groups[0]["lr"])
        return real(self, *rest, **more)

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    falling = {"scheduler": {"name": "step", "step_size": 2, "gamma": 0.5}, "steps": 7}
    assert run([*write(falling), "--out", "out"]) == 0
    assert seen == [0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.0125]


@pytest.mark.parametrize("scheduler", [{"name": "hope"}, {"name": "step"}, {"name": "step", "step_size": 1, "x": 2}])
def test_a_learning_rate_that_cannot_be(scheduler: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*write({"scheduler": scheduler}), "--out", "out"]) == 2
    assert "recipe" in capsys.readouterr().err
