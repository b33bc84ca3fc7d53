"""`discreet audit run`: what it says first and last, what it reads, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from discreet.cli.app import run
from discreet.training import step as step_module

RECIPE: dict[str, Any] = {
    "data": "npz",
    "model": {"name": "linear", "inputs": 4, "outputs": 3},
    "optimizer": {"name": "sgd", "lr": 0.5},
    "population": 300,
    "rate": 0.3,
    "steps": 6,
    "clip_norm": 1.0,
    "epsilon": 4.0,
    "delta": 1.0e-5,
    "engine": "bookkeeping",
}
SCHEMA: dict[str, Any] = {
    "unit": "row",
    "population": 300,
    "target": "ill",
    "columns": {
        "age": {"type": "number", "low": 0, "high": 100},
        "ill": {"type": "category", "categories": ["no", "yes"]},
    },
}


@pytest.fixture(autouse=True)
def _files() -> None:
    rng = np.random.default_rng(0)
    rows = {f"x_{part}": rng.random((40, 4), np.float32) for part in ("train", "test")}
    targets = {f"y_{part}": rng.integers(0, 3, 40) for part in ("train", "test")}
    np.savez("d.npz", **rows, **targets)
    recipe()
    Path("s.yaml").write_text(yaml.safe_dump(SCHEMA))
    ages = rng.integers(0, 100, 60)
    Path("test.csv").write_text("age,ill\n" + "".join(f"{age},{'yes' if age > 60 else 'no'}\n" for age in ages))
    Path("private.csv").write_text("this is no table, and a run that reads it fails\n")


def recipe(**changes: Any) -> None:
    Path("r.yaml").write_text(yaml.safe_dump({k: v for k, v in (RECIPE | changes).items() if v is not None}))


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["audit", "run", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code in (0, 1) else captured.err


def test_it_says_first_what_it_does_and_last_what_that_is_worth(capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(Path().iterdir())
    lines = told(capsys, "r.yaml", "--data", "d.npz", "--canaries", "60").splitlines()
    assert lines[0].startswith("audit of r.yaml in one run: 6 steps of its plan on rows declared public, of the test")
    assert lines[1].startswith("no private row is trained on, no ledger is charged, nothing is published")
    assert "60 canaries, white box" in lines[2]
    assert "40 canaries, black box" in lines[3]
    assert sum(line.startswith("  epsilon >= ") for line in lines) == 5
    assert "claim epsilon 3.9998 at delta 1e-05" in lines[-2]
    assert lines[-1].endswith("evidence beside the proved epsilon 3.9998, never a guarantee")
    assert sorted(Path().iterdir()) == before


def test_made_up_rows_need_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(told(capsys, "r.yaml", "--box", "white", "--canaries", "60", "--json"))
    assert found["rows"] == "made-up rows"
    assert found["kind"] == "evidence"
    assert {one["box"] for one in found["bounds"]} == {"white"}
    assert found["claimed"] == pytest.approx(4.0, rel=1e-3)
    assert found["epsilon_of_the_whole_plan"] == pytest.approx(4.0, rel=1e-3)


def test_numbers_of_guesses_and_a_plan_that_buys_more(capsys: pytest.CaptureFixture[str]) -> None:
    recipe(metrics=[{"kind": "accuracy", "noise": 20.0}])
    line = told(capsys, "r.yaml", "--canaries", "60", "--box", "black", "--guesses", "10,40")
    assert "of 10, " in line
    assert "and with all that it buys 3.9998; " in line


def test_half_the_noise_ends_with_one(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws are new; the p-value of 300 such canaries is below 1e-6 in all but 1e-9 of runs."""
    real = step_module.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        sums = {name: np.array(value, np.float64) for name, value in total.tensors.items()}
        found = real(total, *rest)
        quiet = {name: 0.25 * noisy + 0.75 * sums[name] for name, noisy in found.tensors.items()}
        return dataclasses.replace(found, tensors=quiet)

    monkeypatch.setattr(step_module, "gaussian_release", release)
    recipe(rate=None, sampling={"kind": "none"})
    assert "contradicts its plan" in told(capsys, "r.yaml", "--canaries", "300", "--box", "white", code=1)


def test_of_a_table_the_public_one_is_read_or_none(capsys: pytest.CaptureFixture[str]) -> None:
    table = ["private.csv", "--schema", "s.yaml", "--epsilon", "3", "--set", "steps=4", "--canaries", "40"]
    public = told(capsys, *table, "--test", "test.csv")
    assert "on rows declared public, of the test" in public
    made_up = told(capsys, *table)
    assert "on made-up rows" in made_up
    assert "private.csv" in told(capsys, *table, "--all-public", code=2)
    whole = told(capsys, "test.csv", *table[1:], "--all-public")
    assert "on rows that --all-public declares public" in whole


def test_a_folder_of_images(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        Path("photos", kind).mkdir(parents=True)
        for i in range(6):
            Image.fromarray(rng.integers(0, 255, (16, 16), dtype=np.uint8)).save(Path("photos", kind, f"{i}.png"))
    facts = ["--population", "200", "--classes", "cat,dog", "--size", "16x16", "--unit", "row", "--epsilon", "3"]
    line = told(capsys, "photos", *facts, "--set", "steps=2", "--canaries", "30")
    assert "never a guarantee" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--canaries", "5000", "--data", "d.npz"], "no room for other rows"),
        (["--box", "grey"], "white, black or both"),
        (["--guesses", "many"], "whole numbers"),
        (["--guesses", "0"], "whole numbers"),
        (["--failure", "0"], "--failure"),
        (["--all-public"], "--data"),
        (["--data", "nowhere.npz"], "nowhere.npz"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = told(capsys, "r.yaml", *arguments, code=2)
    assert said in line
    assert len(line.strip().splitlines()) == 1


def test_an_adaptive_plan_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "fixed beforehand" in told(capsys, "digits_agd", code=2)
