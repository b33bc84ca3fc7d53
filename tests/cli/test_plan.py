"""`discreet plan`, and recipes with schedules or policies."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from forging import finds, resealed
from planned_recipe import ADAPTIVE, write

from discreet.accounting.schedules import parse
from discreet.cli.app import run
from discreet.core.errors import InputError
from discreet.plan import AdaptivePlan, Plan, PoissonSampling, ShuffleSampling
from discreet.publication import verify
from discreet.recipes import load_recipe

Capture = pytest.CaptureFixture[str]


def shown(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert run(["plan", "mine.yaml", "--json", "--no-probe", *arguments]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def test_a_schedule_is_scaled_to_the_budget(capsys: Capture) -> None:
    write(schedule="exponential:initial=10,rate=0.1")
    facts = shown(capsys)
    assert (facts["steps"], facts["epochs"], facts["kind"]) == (12, 6.0, "guarantee")
    assert 2.99 < facts["epsilon"] <= 3.0
    noises = [phase[0] for phase in facts["noise"]]
    assert [phase[1] for phase in facts["noise"]] == [2] * 6
    assert np.allclose(np.diff(np.log(noises)), -0.1)
    steps, upper = zip(*facts["epsilon_over_steps"], strict=True)
    assert list(steps) == sorted(set(steps))
    assert list(upper) == sorted(upper)
    assert (steps[-1], upper[-1]) == (12, facts["epsilon"])


def test_a_schedule_without_a_budget_is_taken_as_it_is(capsys: Capture) -> None:
    write(schedule="piecewise:0=4,2=3", epsilon=None)
    facts = shown(capsys)
    assert facts["noise"] == [[4.0, 4], [3.0, 8]]
    plan = Plan.make(
        PoissonSampling(rate=0.5),
        population=40,
        steps=12,
        clip_norm=1.0,
        delta=1e-4,
        noise_multiplier=[(4.0, 4), (3.0, 8)],
    )
    assert facts["epsilon"] == plan.guarantee().epsilon


def test_epochs_of_shuffled_batches_are_whole() -> None:
    """Ten rows in batches of three: epochs of four steps, and the noise changes with them."""
    plan = Plan.make(
        ShuffleSampling(batch=3),
        population=10,
        steps=12,
        clip_norm=1.0,
        delta=1e-4,
        adjacency="zero_out",
        noise_multiplier=parse("step:initial=4,rate=0.5,period=1"),
    )
    assert [(phase.multiplier, phase.steps) for phase in plan.noise] == [(4.0, 4), (2.0, 4), (1.0, 4)]


def test_the_data_of_train_may_be_named_and_is_not_read(capsys: Capture) -> None:
    write()
    assert shown(capsys, "--data", "nowhere.npz") == shown(capsys)


def test_people_read_phases_and_epsilons(capsys: Capture) -> None:
    write(schedule="time:initial=10,rate=0.5")
    assert run(["plan", "mine.yaml", "--no-probe"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("12 steps (6 epochs), batches of 20 expected examples out of 40\n")
    assert "from step 3" in out
    assert "after step 1\n" in out


def test_a_plan_for_people_counts_people(capsys: Capture) -> None:
    write(unit="user", rows_per_unit=2)
    assert shown(capsys)["unit"] == "user"
    assert run(["plan", "mine.yaml", "--no-probe"]) == 0
    assert ", batches of 20 expected users out of 40\n" in capsys.readouterr().out


def test_an_adaptive_plan_shows_its_filter(capsys: Capture) -> None:
    write(**ADAPTIVE)
    facts = shown(capsys)
    assert facts["method"] == "rdp-curve-filter"
    assert facts["filter"]["filter"] == "rdp-curve"
    assert 2.99 < facts["epsilon"] <= 3.0
    assert facts["most_steps"] == 12
    plan = load_recipe("mine.yaml").plan()
    assert isinstance(plan, AdaptivePlan)
    reach, price = facts["steps_as_it_starts"], plan.price(plan.start)
    assert all(reach * cost <= limit for cost, limit in zip(price, plan.filter.limits, strict=True))
    assert any((reach + 1) * cost > limit for cost, limit in zip(price, plan.filter.limits, strict=True))
    assert run(["plan", "mine.yaml", "--no-probe"]) == 0
    assert "whatever is chosen on the way" in capsys.readouterr().out


@pytest.mark.parametrize("more", [{"schedule": "time:initial=10,rate=0.5"}, ADAPTIVE], ids=["fixed", "adaptive"])
@pytest.mark.parametrize("name", ["picture.png", "picture.svg"])
def test_pictures(capsys: Capture, more: dict[str, Any], name: str) -> None:
    write(**more)
    shown(capsys, "--plot", name)
    assert Path(name).stat().st_size > 8000
    assert run(["plan", "mine.yaml", "--plot", "picture.gif"]) == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilon": None}, "give epsilon"),
        ({"patience": 3}, "patience needs validation"),
        ({"schedule": "time:initial=10"}, "rate is missing"),
        ({"schedule": "uniform:initial=3"} | ADAPTIVE, "either schedule"),
        (
            {"sampling": {"kind": "truncated_poisson", "rate": 0.5, "capacity": 30}, "rate": None} | ADAPTIVE,
            "no filter",
        ),
        ({"adaptive": ADAPTIVE["adaptive"] | {"policy": {"kind": "hope"}}}, "adaptive.policy"),
    ],
)
def test_recipes_that_cannot_be(changes: dict[str, Any], says: str) -> None:
    write(**changes)
    with pytest.raises(InputError, match=says):
        load_recipe("mine.yaml").plan()


def test_an_adaptive_recipe_trains_and_verifies(capsys: Capture) -> None:
    write(**ADAPTIVE)
    generator = np.random.Generator(np.random.PCG64(0))
    x, y = generator.normal(size=(40, 4)), np.arange(40) % 3
    np.savez("mine.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out"]) == 0
    assert "certified epsilon 2.99" in capsys.readouterr().out
    facts = json.loads(Path("out/certificate.json").read_text())
    noises = {part["of"]["of"]["noise_multiplier"] for part in facts["events"]["of"]}
    assert noises == {6.0, 3.0}  # 1.5 would not fit any more
    assert {"accuracy", "validation_accuracy"} <= facts["public_evaluations"][-1].keys()
    assert verify("out").accepted


def test_patience_stops_a_fixed_plan_under_its_whole_guarantee(capsys: Capture) -> None:
    write(validation=0.5, patience=1, evaluate_every=1, optimizer={"name": "sgd", "lr": 1.0})
    generator = np.random.Generator(np.random.PCG64(0))
    x, y = generator.normal(size=(40, 4)), np.arange(40) % 3
    np.savez("mine.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out"]) == 0
    facts = json.loads(Path("out/certificate.json").read_text())
    assert sum(part["count"] for part in facts["events"]["of"]) == 12
    *seen, kept = facts["public_evaluations"]  # the last is of the model that is kept
    assert [entry["step"] for entry in seen] == list(range(1, len(seen) + 1))
    *better, last = [entry["validation_accuracy"] for entry in seen]
    assert all(one < other for one, other in itertools.pairwise(better))
    assert last <= better[-1]  # no better, so no further
    assert kept == {**seen[-2], "step": len(seen), "baseline accuracy": pytest.approx(0.4)}  # two of five rows
    assert 2.99 < facts["claim"]["epsilon"] <= 3.0
    assert verify("out").accepted


def test_batches_over_time_and_their_certificate(capsys: Capture) -> None:
    write(rate=None, batches="linear:initial=10,end=40,period=2", schedule="step:initial=4,rate=0.5,period=2")
    facts = shown(capsys, "--plot", "picture.png")
    assert facts["batches"] == [[10.0, 4], [25.0, 2], [40.0, 6]]  # an epoch of four steps, one of under two
    assert [phase[1] for phase in facts["noise"]] == [6, 2, 2, 2]
    assert facts["epochs"] == pytest.approx(4 * 0.25 + 2 * 0.625 + 6)
    assert 2.99 < facts["epsilon"] <= 3.0
    assert run(["plan", "mine.yaml", "--no-probe"]) == 0
    assert "batches of 10 to 40 expected examples" in capsys.readouterr().out
    generator = np.random.Generator(np.random.PCG64(0))
    x, y = generator.normal(size=(40, 4)), np.arange(40) % 3
    np.savez("mine.npz", x_train=x, y_train=y)
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out"]) == 0
    assert verify("out").accepted
    report = Path("out/report.html").read_text()
    assert "Expected batch" in report
    assert "a probability that changes over the steps" in report
    assert "divided by its expected batch" in report
    assert "| expected batch | 10 to 40 |" in Path("out/README.md").read_text()
    original = Path("out/certificate.json").read_text()
    for change, finder in FORGED_RATES:
        facts = json.loads(original)
        change(facts["plan"])
        canonical = json.dumps(facts["plan"], sort_keys=True, separators=(",", ":"))
        fingerprint = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
        facts["ledger"]["entries"][0]["body"]["plan"] = facts["plan_fingerprint"] = fingerprint
        resealed(facts)
        Path("out/certificate.json").write_text(json.dumps(facts))
        Path("out/plan.yaml").write_text(yaml.safe_dump(facts["plan"]))
        found = verify("out")
        assert finds(finder, found)


FORGED_RATES: list[tuple[Any, str]] = [
    (lambda plan: plan["rates"][2].update(rate=0.9), "events"),
    (lambda plan: plan["rates"].reverse(), "events"),
    (lambda plan: plan["rates"][0].update(steps=5), "events"),
    (lambda plan: plan["rates"].clear(), "events"),
    (lambda plan: plan["sampling"].update(rate=0.1), "events"),
    (lambda plan: plan["rates"].append({"rate": 0.1, "steps": 0}), "events"),
]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"batches": [[10, 12]]}, "give one of"),
        ({"batches": [[10, 11]], "rate": None}, "cover 11 steps"),
        ({"batches": "linear:initial=10", "rate": None}, "needs end, period"),
        ({"batches": [[10, 12]], "rate": None} | ADAPTIVE, "a policy decides"),
    ],
)
def test_batches_that_cannot_be(changes: dict[str, Any], says: str) -> None:
    write(**changes)
    with pytest.raises(InputError, match=says):
        load_recipe("mine.yaml").plan()


def test_an_odometer_in_a_recipe_ends_the_run_and_is_no_guarantee(capsys: Capture) -> None:
    write(odometer="renyi", stop_at=2.0, steps=60)
    facts = shown(capsys)
    assert facts["odometer"]["kind"] == "ex_post"
    assert facts["odometer"]["reading_of_all_steps"] > facts["epsilon"] > 2.99
    assert run(["plan", "mine.yaml", "--no-probe"]) == 0
    assert "ex post and no guarantee: reads" in capsys.readouterr().out
    generator = np.random.Generator(np.random.PCG64(0))
    x, y = generator.normal(size=(40, 4)), np.arange(40) % 3
    np.savez("mine.npz", x_train=x, y_train=y)
    assert run(["train", "mine.yaml", "--data", "mine.npz", "--out", "out"]) == 0
    out, err = capsys.readouterr()
    assert "certified epsilon 2.99" in out or "certified epsilon 3.0" in out
    assert "the run ended after" in err
    found = json.loads(Path("out/certificate.json").read_text())
    assert found["ex_post"]["reading"] <= 2.0
    assert found["charged_steps"] < 60
    assert verify("out").accepted
