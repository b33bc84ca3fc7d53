"""`--holdout` and `metrics:` in recipes: prices before a run, and values after it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from discreet.cli.app import run
from discreet.plan import Plan
from discreet.publication import verify
from discreet.recipes import load_recipe

Capture = pytest.CaptureFixture[str]
RECIPE: dict[str, Any] = {
    "data": "npz",
    "model": {"name": "linear", "inputs": 4, "outputs": 3},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "population": 200,
    "rate": 0.5,
    "steps": 12,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
}


def write(**changes: Any) -> None:
    Path("mine.yaml").write_text(yaml.safe_dump(RECIPE | changes))
    generator = np.random.Generator(np.random.PCG64(0))
    y = np.arange(200) % 3
    x = generator.normal(size=(200, 4))
    x[np.arange(200), y] += 4
    np.savez("mine.npz", x_train=x, y_train=y, ids_train=np.array([f"row {i}" for i in range(200)]))


def test_held_out_accuracy_costs_nothing_more_and_is_shown(capsys: Capture) -> None:
    write()
    assert run(["plan", "mine.yaml", "--no-probe", "--holdout", "20%", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["holdout"], facts["population"]) == (0.2, 160.0)
    accuracy, size = facts["metrics"]
    assert (accuracy["metric"], accuracy["times"]) == ("holdout_accuracy", 1)
    assert (size["metric"], size["times"]) == ("holdout_size", 1)
    assert facts["epsilon"] == facts["epsilon_without_metrics"]
    plan = load_recipe("mine.yaml", [], {"holdout": "20%"}).plan()
    assert isinstance(plan, Plan)
    assert plan.first_guarantee(plan.charges, 1e-4, "pld").epsilon <= 3.0  # type: ignore[arg-type]
    louder = [metric.model_copy(update={"noise": 0.99 * metric.noise}) for metric in plan.metrics]
    assert plan.model_copy(update={"metrics": tuple(louder)}).guarantee().epsilon > 3.0  # as exact as can be
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--holdout", "20%", "--out", "out"]) == 0
    out, err = capsys.readouterr()
    assert "buys holdout accuracy once, +/- " in err
    assert "with these metrics" in err
    assert re.search(r"^holdout accuracy \S+ \+/- \S+ of noise, bought on private rows$", out, re.MULTILINE)
    assert "How other rows would do is less certain" in Path("out/report.html").read_text()
    assert verify("out").accepted
    published = json.loads(Path("out/certificate.json").read_text())
    shown = {one["metric"]: one["value"] for one in published["bought_metrics"]}
    assert abs(shown["holdout_size"] - 40) < 30
    assert abs(shown["holdout_accuracy"] - 0.9) < 6 * accuracy["standard_deviation"]


def test_training_metrics_are_priced_before_the_run(capsys: Capture) -> None:
    write(metrics=[{"noise": 20.0, "every": 4}, {"kind": "loss", "bound": 2.0, "noise": 30.0}])
    assert run(["plan", "mine.yaml", "--no-probe", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert 2.99 < facts["epsilon"] <= 3.0
    assert 0.95 * facts["epsilon"] < facts["epsilon_without_metrics"] < 0.999 * facts["epsilon"]
    assert [metric["times"] for metric in facts["metrics"]] == [3, 1]
    assert facts["metrics"][0]["standard_deviation"] == pytest.approx(20 * 0.5 / 200)
    assert run(["plan", "mine.yaml", "--no-probe"]) == 0
    out = capsys.readouterr().out
    assert "buys training accuracy 3 times, each +/- 0.05 of noise (one standard deviation)" in out
    assert "without them" in out
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out", "--json"]) == 0
    bought = json.loads(capsys.readouterr().out)["bought"]
    assert [one["metric"] for one in bought] == ["training_accuracy"] * 3 + ["training_loss"]


def test_patience_may_watch_a_bought_metric(capsys: Capture) -> None:
    write(
        metrics=[{"rows": "holdout", "every": 1}],
        holdout=0.3,
        patience=2,
        watch="holdout_accuracy",
        optimizer={"name": "sgd", "lr": 1e-9},
    )
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out", "--json"]) == 0
    bought = [one for one in json.loads(capsys.readouterr().out)["bought"] if one["metric"] == "holdout_accuracy"]
    assert 3 <= len(bought) < 12
    assert verify("out").accepted


def test_an_adaptive_recipe_says_what_a_metric_costs(capsys: Capture) -> None:
    write(adaptive={"policy": {"kind": "constant"}, "noise_multiplier": 6.0}, metrics=[{"noise": 30.0}])
    assert run(["plan", "mine.yaml", "--no-probe", "--json"]) == 0
    (metric,) = json.loads(capsys.readouterr().out)["metrics"]
    assert 0 < metric["part_of_the_budget"] < 0.05
    assert run(["plan", "mine.yaml", "--no-probe"]) == 0
    assert "buys training accuracy after each phase" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"holdout": "half"}, "holdout"),
        ({"holdout": "100%"}, "holdout"),
        ({"metrics": [{"every": 3}]}, "needs noise"),
        ({"metrics": [{"every": 3, "rows": "holdout"}]}, "none are held out"),
        ({"metrics": [{"kind": "loss", "rows": "holdout"}], "holdout": 0.1}, "bound"),
        (
            {
                "holdout": 0.1,
                "adjacency": "replace_one",
                "rate": None,
                "sampling": {"kind": "fixed_size", "batch": 9},
                "metrics": [{"rows": "holdout", "noise": 5.0}],
            },
            "a holdout makes random",
        ),
        ({"holdout": 0.1, "adjacency": "replace_one", "rate": None, "sampling": {"kind": "none"}}, "needs noise here"),
        ({"metrics": [{"noise": 0.5, "every": 1}]}, "the metrics alone cost"),
        ({"patience": 3, "watch": "holdout_accuracy"}, "patience needs"),
    ],
)
def test_what_cannot_be(changes: dict[str, Any], says: str, capsys: Capture) -> None:
    write(**changes)
    recipe = {name: value for name, value in (RECIPE | changes).items() if value is not None}
    Path("mine.yaml").write_text(yaml.safe_dump(recipe))
    assert run(["plan", "mine.yaml", "--no-probe"]) == 2
    assert says in capsys.readouterr().err


def test_rows_without_names_cannot_be_held_out_under_add_remove(capsys: Capture) -> None:
    write()
    arrays = dict(np.load("mine.npz"))
    del arrays["ids_train"]
    np.savez("bare.npz", **arrays)
    assert run(["train", "mine.yaml", "--data", "bare.npz", "--holdout", "20%"]) == 2
    assert "ids_train" in capsys.readouterr().err
