"""What `discreet train` refuses: exit code 2, one line that says what and where, and nothing charged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from npz_recipes import FAST, as_is, refused, with_row, write

from discreet.cli.app import run

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
    "--dataset-id that cannot be printed": (
        ["train", "digits", *FAST, "--dataset-id", "a\nb", "--ledger", "shared.sqlite"],
        ["printable"],
    ),
    "ledger at an address that is not served": (
        ["train", "digits", *FAST, "--ledger", "http://example.org/ledger"],
        ["postgresql://"],
    ),
    "population far below the rows": (
        ["train", "digits", "--population", "1000"],
        ["more rows than the 1250", "population"],
    ),
    "--resume of nothing": (["train", "--resume", "nowhere"], ["nowhere", "OUT.run"]),
    "--resume of a folder without a name": (["train", "--resume", "."], ["is not the folder of a run", "OUT.run"]),
    "--resume with --dataset-id": (["train", "--resume", "nowhere", "--dataset-id", "x"], ["--resume", "leave out"]),
    "no such device": (["train", "digits", *FAST, "--device", "abacus"], ["abacus", "use cpu"]),
    "unknown option": (["train", "--frobnicate"], ["--frobnicate"]),
    "replace_one": (["train", "--set", "adjacency=replace_one"], ["replace_one", "add_remove"]),
    "folder to verify is missing": (["verify", "nowhere"], ["nowhere"]),
}


@pytest.mark.parametrize("case", BAD_USAGE)
def test_bad_usage(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(*BAD_USAGE[case], capsys)


def test_a_recipe_that_lacks_a_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tmp_path / "short.yaml"
    recipe.write_text("data: digits\nepsilon: 1\n")
    refused(["train", str(recipe)], ["short.yaml: model: is needed"], capsys)


BAD_DATA: dict[str, tuple[dict[str, Any], list[str]]] = {
    "NaN feature": ({"x_train": with_row(17, np.nan)}, ["feature", "row 17", "repair"]),
    "infinite feature": ({"x_train": with_row(0, np.inf)}, ["feature", "row 0"]),
    "too large for float32": ({"x_train": with_row(3, 1e300)}, ["feature", "row 3"]),
    "label too large": ({"y_train": np.full(30, 3)}, ["label 3", "row 0", "3 classes"]),
    "label negative": ({"y_train": np.arange(30) % 3 - 1}, ["label -1", "row 0"]),
    "lengths differ": ({"y_train": np.arange(29) % 3}, ["fewer targets than inputs", "one for each"]),
    "no rows": ({"x_train": np.zeros((0, 4)), "y_train": np.zeros(0, int)}, ["empty"]),
    "wrong width": ({"x_train": np.zeros((30, 5))}, ["shape (5,)"]),
    "wrong width, regression": (
        {"x_train": np.zeros((30, 5)), "y_train": np.zeros((30, 3)), "x_test": None, "y_test": None},
        ["shape (5,)"],
    ),
    "missing array": ({"y_train": None}, ["y_train", "x_train"]),
    "words": ({"x_train": np.full((30, 4), "a")}, ["x_train", "numbers"]),
    "objects": ({"x_train": np.full((30, 4), None)}, ["mine.npz", "plain arrays"]),
    "public label too large": ({"y_test": np.full(6, 9)}, ["public test", "label 9"]),
    "public rows missing": ({"x_test": np.zeros((0, 4)), "y_test": np.zeros(0, int)}, ["public test", "empty"]),
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


SEARCH = ["tune", "digits", "--trials", "2", "--grid", "clip_norm=0.5,1", "--holdout", "10%"]
OF_TEXTS = [
    "train",
    "texts.jsonl",
    "--text",
    "text",
    "--unit",
    "row",
    "--model",
    "m",
    "--epsilon",
    "8",
    "--delta",
    "1e-5",
]


@pytest.mark.parametrize("command", [["train", "digits"], SEARCH, [*OF_TEXTS, "--population", "60"]])
def test_several_processes_are_refused_before_anything_is_there(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run(command) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert "WORLD_SIZE is '2', but a run is one process; start one only (python, not torchrun)" in said
    assert ("--processes" in said) == (command == ["train", "digits"])  # others have no such option, or refuse it
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("lr=1", r"'lr' \(it is optimizer.lr here\)"),
        ("batch=64", r"'batch' \(it is rate, the batch over the population here\)"),
        ("stepz=3", r"'stepz' \(perhaps steps\)"),
        ("optimiser.lr=3", r"'optimiser' \(perhaps optimizer\)"),
    ],
)
def test_a_setting_by_another_name_is_told_its_own(setting: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "--set", setting]) == 2
    assert re.search(said, capsys.readouterr().err)
