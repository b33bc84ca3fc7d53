"""Certificates of runs that bought metrics on private rows, and forgeries with the check that must find each."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forging import Facts, assert_found, claim, edit, edit_consistently, facts_of, fingerprinted, put, resealed, times
from problems import blobs, certified_run, tiny_plan

from discreet import InputError, publish, verify
from discreet.core.adjacency import Adjacency
from discreet.plan import AdaptivePlan, Constant, Metric, Plan, PoissonSampling
from discreet.verification.checks import private_metrics

pytestmark = pytest.mark.usefixtures("recomputed_once")

METRICS = [
    Metric(noise=9.0, every=3, rows="holdout"),
    Metric(kind="size", noise=9.0, rows="holdout"),
    Metric(kind="loss", noise=12.0, bound=2.0, every=5),
]


def plan() -> Plan:
    return tiny_plan(metrics=METRICS, holdout=0.3, steps=7, adjacency="zero_out")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metrics")
    publish(certified_run(folder, plan=plan()), folder / "out")
    return folder / "out"


def test_what_was_bought_is_in_the_certificate_and_on_the_pages(original: Path) -> None:
    facts, verified = facts_of(original), verify(original)
    assert verified.accepted, verified.checks
    shown = [(one["step"], one["metric"]) for one in facts["bought_metrics"]]
    assert shown == [(4, "holdout_size"), (5, "holdout_accuracy"), (8, "training_loss"), (10, "holdout_accuracy")]
    assert facts["charged_steps"] == plan().charges == 11
    detail = next(check.detail for check in verified.checks if check.name == "epsilon")
    assert detail.startswith("rows trained on: claim")
    assert "; rows held out: claim" in detail
    report, card = (original / "report.html").read_text(), (original / "README.md").read_text()
    assert "epsilon is that of the dearer part" in report
    assert "30% of the rows were held out" in report
    assert "and the 4 metrics on private rows that it buys" in report
    assert "Loss and accuracy on the private data are not shown" not in report
    assert "holdout accuracy" in report
    assert "| 8 | training loss |" in card
    assert "| held out of training | 30 %: epsilon is that of the dearer part |" in card
    assert "the population of the data to train on: 16.8 rows |" in card
    assert "| To check it | discreet verify FOLDER; for most plans also verify.py, with NumPy alone |" in card


def everywhere(change: Callable[[dict[str, Any]], None]) -> Callable[[Facts], None]:
    """Change every event of the certificate and of the ledger's blocks."""

    def forge(facts: Facts) -> None:
        blocks = [one["body"] for one in facts["ledger"]["entries"] if one["kind"] == "reservation"]
        for event in [facts["events"], *blocks]:
            for part in event["of"]:
                change(part["of"])

    return forge


def quieter(event: dict[str, Any]) -> None:
    """The metrics with a tenth of the noise."""
    if event["event"] == "gaussian":
        event["noise_multiplier"] /= 10


def counted(event: dict[str, Any]) -> None:
    """Centred bits told as counts."""
    if event.get("query") == "centred_bit":
        event["query"] = "count"


def metric(which: int, name: str, value: Any) -> Any:
    return put("plan", "metrics", which, name, value=value)


def quieter_metrics(facts: Facts) -> None:
    for one in facts["plan"]["metrics"]:
        one["noise"] /= 10
    for shown in facts["bought_metrics"]:
        shown["standard_deviation"] /= 10


def replaced(facts: Facts) -> None:
    """Under replace-one a row may change parts, so the claim, of the dearer part, is too low."""
    facts["claim"]["adjacency"] = facts["plan"]["adjacency"] = Adjacency.REPLACE_ONE.value
    facts["plan"]["sampling"] = {"kind": "none"}
    facts["ledger"]["entries"][0]["body"]["adjacency"] = Adjacency.REPLACE_ONE.value


def shown(which: int, name: str, value: Any) -> Any:
    return put("bought_metrics", which, name, value=value)


def without_holdout(facts: Facts) -> None:
    facts["plan"]["holdout"] = None


def metric_left_out(facts: Facts) -> None:
    """A purchase left out of the plan; the events still hold it."""
    facts["plan"]["metrics"].pop()


def purchase_left_out(facts: Facts) -> None:
    """The loss left out of the events, of its block and of what is shown, but not of the plan."""

    def cut(parts: list[dict[str, Any]]) -> int:
        lost = sum(part["count"] for part in parts if part["of"].get("query") == "loss")
        parts[:] = [part for part in parts if part["of"].get("query") != "loss"]
        return lost

    cut(facts["events"]["of"])
    for one in facts["ledger"]["entries"]:
        if one["kind"] == "reservation":
            one["steps"] -= cut(one["body"]["of"])
    facts["charged_steps"] -= 1
    facts["bought_metrics"] = [one for one in facts["bought_metrics"] if one["metric"] != "training_loss"]


def repeated(facts: Facts) -> None:
    """One purchase shown with two values."""
    facts["bought_metrics"].append(dict(facts["bought_metrics"][-1], value=0.99))


FORGERIES: dict[str, tuple[str, Any]] = {
    "a metric that was not charged": ("metrics", edit(shown(0, "step", 3))),
    "a metric of a step": ("metrics", edit(shown(3, "step", 11))),
    "another metric than was charged": ("metrics", edit(shown(2, "metric", "holdout_accuracy"))),
    "a metric that the plan does not know": ("metrics", edit(shown(2, "metric", "training_accuracy"))),
    "a purchase shown twice": ("metrics", edit(repeated)),
    "a value that is no number": ("metrics", edit(shown(1, "value", math.nan))),
    "a metric said to be more exact": ("metrics", edit(shown(1, "standard_deviation", times(0.5)))),
    "the size left out, which made it more exact": ("metrics", edit(lambda facts: facts["bought_metrics"].pop(0))),
    "a further field": ("metrics", edit(put("bought_metrics", 0, "note", value="exact"))),
    "noise of a metric, in the plan": ("events", edit_consistently(metric(0, "noise", 90.0), fingerprinted)),
    "noise of a metric, in the events": ("events", edit(put("events", "of", 1, "of", "noise_multiplier", value=90.0))),
    "less noise in metrics everywhere": (
        "epsilon",
        edit_consistently(everywhere(quieter), quieter_metrics, fingerprinted),
    ),
    "a metric every other number of steps": ("events", edit_consistently(metric(0, "every", 4), fingerprinted)),
    "a metric with another bound": ("metrics", edit_consistently(metric(2, "bound", 0.5), fingerprinted)),
    "a metric on other rows": ("metrics", edit_consistently(metric(2, "rows", "holdout"), fingerprinted)),
    "centred bits as counts": ("events", edit(everywhere(counted), resealed)),
    "a metric left out of the plan": ("events", edit_consistently(metric_left_out, fingerprinted)),
    "a purchase left out": ("events", edit(purchase_left_out, resealed)),
    "the holdout hidden": ("events", edit_consistently(without_holdout, fingerprinted)),
    "the holdout hidden from the assumptions": ("mechanism", edit(lambda facts: facts["assumptions"].pop(5))),
    "metrics hidden from the assumptions": ("mechanism", edit(lambda facts: facts["assumptions"].pop(4))),
    "a larger holdout": ("metrics", edit_consistently(put("plan", "holdout", "share", value=0.5), fingerprinted)),
    "a holdout without a salt": (
        "epsilon",
        edit_consistently(lambda facts: facts["plan"]["holdout"].pop("salt"), fingerprinted),
    ),
    "parts that a row may change": ("epsilon", edit_consistently(replaced, fingerprinted)),
    "a kind that is not known": ("events", edit_consistently(metric(0, "kind", "names"), fingerprinted)),
    "a field that is not known": ("events", edit_consistently(metric(0, "free", True), fingerprinted)),
    "epsilon lowered": ("epsilon", edit(claim("epsilon", times(0.99)))),
    "another plan than the ledger's": ("ledger", edit_consistently(metric(0, "noise", 90.0))),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_found(folder: Path, name: str) -> None:
    finder, forge = FORGERIES[name]
    forge(folder)
    assert_found(finder, folder)


def test_an_adaptive_run_with_metrics_verifies_and_its_metrics_are_checked(tmp_path: Path) -> None:
    adaptive = AdaptivePlan.make(
        PoissonSampling(rate=0.5),
        epsilon=6.0,
        delta=1e-5,
        population=24,
        clip_norm=1.0,
        policy=Constant(),
        noise_multiplier=3.0,
        most_steps=24,
        every=2.0,
        metrics=[Metric(noise=20.0), Metric(kind="size", noise=20.0)],
    )
    publish(certified_run(tmp_path, plan=adaptive), tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    facts = facts_of(tmp_path / "out")
    assert [one["metric"] for one in facts["bought_metrics"]][:2] == ["training_size", "training_accuracy"]
    assert "metrics above" not in (tmp_path / "out" / "report.html").read_text()  # it bought no count
    for forge in (
        edit(put("bought_metrics", 0, "step", value=2)),
        edit(put("bought_metrics", 1, "standard_deviation", value=1e-3)),
        edit_consistently(put("plan", "metrics", value=[]), fingerprinted),
    ):
        copy = Path(shutil.copytree(tmp_path / "out", tmp_path / "copy"))
        forge(copy)
        assert not verify(copy).accepted
        shutil.rmtree(copy)


def test_metrics_of_people(tmp_path: Path) -> None:
    owners = [f"user {i // 3}" for i in range(24)]
    people = tiny_plan(
        population=8,
        batch=4,
        unit="user",
        rows_per_unit=3,
        holdout=0.4,
        noise_multiplier=3.0,
        metrics=[Metric(noise=9.0, rows="holdout")],
    )
    publish(certified_run(tmp_path, plan=people, units=owners, data=blobs()), tmp_path / "out")
    assert verify(tmp_path / "out").accepted
    report = (tmp_path / "out" / "report.html").read_text()
    assert "of the people were held out" in report
    assert "steps, and 1 metric, on batches" in report
    assert "and the 1 metric on private rows that it buys" in report


def test_a_plan_that_buys_at_every_step_does_not_fill_the_memory(original: Path) -> None:
    bought = facts_of(original)["plan"]
    bought["noise"] = [{"multiplier": 1.5, "steps": 2**20}]
    bought["metrics"][0]["every"] = 1
    with pytest.raises(InputError, match="more than 1,048,576 purchases"):
        private_metrics.all_events(bought)
