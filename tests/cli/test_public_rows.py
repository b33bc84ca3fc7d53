"""`--public FILE` and `public:` in recipes: rows declared public whose gradient joins every step of a run."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from instead import instead

from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.plan import Plan
from discreet.recipes import load_recipe
from discreet.recipes.sections.public import weight_for
from discreet.training import Training

Capture = pytest.CaptureFixture[str]
COLUMNS: dict[str, Any] = {
    "age": {"type": "number", "low": 0, "high": 100},
    "smoker": {"type": "boolean"},
    "ill": {"type": "boolean"},
}
FEW = ["--set", "steps=4", "--set", "rate=0.2", "--set", "averaging.start=2", "--set", "engine=bookkeeping"]
TRAIN = ["train", "patients.csv", "--schema", "s.yaml", "--delta", "1e-4", "--public", "public.csv"]


@pytest.fixture(autouse=True)
def _tables() -> None:
    """In public.csv and test.csv old people are ill; in patients.csv nothing tells who is."""
    generator = np.random.Generator(np.random.PCG64(1))
    for name, count in (("patients", 300), ("public", 80), ("test", 200)):
        age = generator.integers(20, 90, count)
        ill = generator.integers(0, 2, count) if name == "patients" else age > 55
        lines = [f"{a},{i % 2},{int(b)}" for i, (a, b) in enumerate(zip(age, ill, strict=True))]
        Path(f"{name}.csv").write_text("\n".join(["age,smoker,ill", *lines]) + "\n")
    schema(COLUMNS)


def schema(columns: dict[str, Any]) -> None:
    Path("s.yaml").write_text(yaml.safe_dump({"unit": "row", "population": 300, "target": "ill", "columns": columns}))


def declared(folder: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(Path(folder, "certificate.json").read_text())["public_batches"]
    return facts


def test_a_table_learns_from_public_rows_and_says_so(capsys: Capture) -> None:
    """At epsilon 0.1 private rows tell nothing, and here there is nothing to tell: what is learned is of public rows
    (accuracy 0.95 to 1 in 20 runs with fresh noise, 0.16 to 0.78 without them)."""
    more = ["--set", "steps=80", "--set", "rate=0.2", "--set", "averaging.start=40", "--set", "public.weight=0.98"]
    more += ["--set", "optimizer.lr=4", "--set", "public.batch=40"]
    arguments = [*TRAIN, "--epsilon", "0.1", "--test", "test.csv", *more]
    said = "80 rows, declared public, join every step, 40 at a time, with weight 0.98; they are not protected"
    assert run([*arguments, "--dry-run"]) == 0
    assert said in capsys.readouterr().out
    assert run(["plan", *arguments[1:], "--no-probe"]) == 0
    assert said in capsys.readouterr().out
    assert run([*arguments, "--json"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["public_test"]["accuracy"] > 0.85
    assert "80 rows declared public join every step, 40 of them at a time, with weight 0.98" in out.err
    found = declared("patients-private")
    assert (found["rows"], found["batch"], found["weight"]) == (80, 40, 0.98)
    assert run(["verify", "patients-private"]) == 0
    command = [sys.executable, "patients-private/verify.py", "patients-private"]
    assert "ACCEPTED" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for page in ("README.md", "report.html"):
        assert "80 rows declared public have weight 0.98 in every step" in Path("patients-private", page).read_text()


def test_a_run_goes_on_with_the_rows_that_it_began_with(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that has bought a range first: what joins the steps is declared when the first is taken."""
    schema(COLUMNS | {"age": {"type": "number", "buy": {"between": [0, 200], "noise": 2, "bins": 20}}})

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Training, "take_steps", fails)
        assert run([*TRAIN, "--epsilon", "8", *FEW]) == 130
    rows = Path("public.csv").read_text()
    Path("public.csv").write_text(rows + "30,1,0\n")
    assert run(["train", "--resume", "patients-private"]) == 2
    assert "started with other public rows" in capsys.readouterr().err
    Path("public.csv").write_text(rows)
    assert run(["train", "--resume", "patients-private"]) == 0, capsys.readouterr().err
    assert declared("patients-private")["rows"] == 80
    assert run(["verify", "patients-private"]) == 0


def test_a_share_of_the_public_rows_of_a_data_set_is_no_longer_tested_on() -> None:
    whole, some = load_recipe("digits").load_data(None), load_recipe("digits", ["public.share=25%"]).load_data(None)
    assert some.test is not None
    assert some.public is not None
    assert whole.test is not None
    assert (len(some.test[1]), len(some.public[1])) == (270, 90)
    assert set(some.public[1].tolist()) == set(range(10))
    together = torch.cat([some.test[0], some.public[0]]).tolist()
    assert sorted(together) == sorted(whole.test[0].tolist())
    both = load_recipe("digits", ["public.share=0.25", "validation=0.5"]).load_data(None)
    assert both.public is not None
    assert torch.equal(both.public[0], some.public[0])
    assert len(both.test[1]) == len(both.validation[1]) == 135  # type: ignore[index]


def test_a_recipe_with_public_rows_is_published_with_them(capsys: Capture) -> None:
    settings = ["--set", "steps=3", "--set", "engine=bookkeeping", "--set", "public.share=25%"]
    assert run(["train", "digits", *settings, "--dry-run"]) == 0
    assert "25 % of the public test rows, declared public, join every step, with a weight" in capsys.readouterr().out
    assert run(["train", "digits", *settings]) == 0
    assert declared("digits-private")["rows"] == 90
    assert run(["verify", "digits-private"]) == 0


def test_the_weight_follows_from_declared_figures() -> None:
    """By hand: 3 outputs on 9 inputs are 30 parameters; noise s, batch 20 of 100, 10 steps."""
    model = torch.nn.Linear(9, 3)

    def weight(noise: float, rows: int) -> float:
        plan = Plan.poisson(population=100, batch=20, steps=10, clip_norm=1.0, delta=1e-5, noise_multiplier=noise)
        return weight_for(plan, model, rows)

    private, public = 30 * (5 / 20) ** 2 / 10 + 1 / 100, 1 / 25
    assert weight(5.0, 25) == pytest.approx(private / (private + public), rel=0.05)
    wide = torch.nn.Linear(9999, 3)  # more parameters than people: what they tell has 100 directions
    plan = Plan.poisson(population=100, batch=20, steps=10, clip_norm=1.0, delta=1e-5, noise_multiplier=5.0)
    private = 100 * (5 / 20) ** 2 / 10 + 1 / 100
    assert weight_for(plan, wide, 25) == pytest.approx(private / (private + public), rel=0.05)
    assert weight(1.0, 25) < weight(5.0, 25) < weight(5.0, 50) < 1
    assert (weight(1e6, 10**6), weight(1e-3, 1)) == (0.99, 0.01)
    assert math.isclose(weight(1e-3, 100), 0.5)  # as many rows, and next to no noise


REFUSED: dict[str, tuple[list[str], list[str]]] = {
    "the private table": (["--public", "patients.csv"], ["--public patients.csv is the private table itself"]),
    "its other name": (["--public", "linked.csv"], ["--public linked.csv is the private table itself"]),
    "its copy": (["--public", "copied.csv"], ["--public copied.csv is a copy of the private table"]),
    "the test": (["--test", "public.csv"], ["is what --test names", "leave one out"]),
    "a folder around it": (["--public", "."], ["lie in one another"]),
    "not there": (["--public", "nowhere.csv"], ["nowhere.csv"]),
    "weight 1": (["--set", "public.weight=1"], ["public.weight", "less than 1"]),
    "a spelling": (["--set", "public.wieght=0.5"], ["'public.wieght'", "known: weight, batch, share"]),
    "a share": (["--set", "public.share=0.5"], ["public", "--public FILE"]),
    "a batch": (["--set", "public.batch=81"], ["81", "there are 80"]),
    "an optimizer": (["--set", "optimizer={name: sgld, population: 300}"], ["public"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_cost_nothing(case: str, capsys: Capture) -> None:
    arguments, words = REFUSED[case]
    os.link("patients.csv", "linked.csv")
    Path("copied.csv").write_bytes(Path("patients.csv").read_bytes())
    before = sorted(Path().iterdir())
    assert run(instead([*TRAIN, "--epsilon", "4", *FEW], *arguments)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("discreet: ")
    assert all(word in error for word in words), error
    assert sorted(Path().iterdir()) == before


def test_public_rows_need_to_come_from_somewhere(capsys: Capture) -> None:
    assert run(["train", "digits", "--public", "public.csv"]) == 2
    assert "--set public.share=20%" in capsys.readouterr().err
    assert run([*TRAIN[:-2], "--epsilon", "4", "--set", "public.weight=0.5"]) == 2
    assert "--public" in capsys.readouterr().err
    with pytest.raises(InputError, match="recipe digits: public: say which share"):
        load_recipe("digits", ["public.weight=0.5"])
