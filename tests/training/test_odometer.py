"""Odometers beside runs: what they read, what they end, and how runs end cleanly when a budget refuses."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from problems import linear, tiny_plan, tiny_training
from torch import nn

from discreet.accounting.adaptive import odometers
from discreet.accounting.adaptive.filters import RdpOrderFilter
from discreet.accounting.adaptive.odometers import DoublingOdometer, GaussianOdometer, RenyiOdometer, ZcdpOdometer
from discreet.core.errors import BudgetExhausted, InputError, NotProved
from discreet.core.events import Compose, Gaussian, Poisson, Repeat
from discreet.core.events.event_json import from_json
from discreet.core.guarantee import ExPost
from discreet.ledger import Ledger
from discreet.plan import (
    AdaptivePlan,
    Controls,
    FixedSizeSampling,
    Metric,
    Plan,
    PoissonSampling,
    TruncatedPoissonSampling,
)
from discreet.randomness import TestStream

STEP = Poisson(0.5, Gaussian(1.5))


def reads(steps: int, extra: Any = None) -> float:
    """The reading of so many steps, a two-thousandth loosened, straight from the accountant."""
    odometer = RenyiOdometer(1e-5)
    event = Compose((Repeat(STEP, steps), *(() if extra is None else (extra,))))
    spent = odometers.advance(odometer, odometers.start(odometer), odometer.cost(event))
    return odometers.read(odometer, [amount * (1 + 5e-4) for amount in spent]).epsilon


def test_a_run_is_read_at_its_end_and_keeps_its_guarantee(tmp_path: Path) -> None:
    plan = tiny_plan(odometer="renyi")
    training = tiny_training(tmp_path, plan=plan)
    with training.session() as session:
        assert session.reading == ExPost(0.0, 1e-5, plan.adjacency, "renyi-odometer")
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(training.criterion, chunk)
            charged = session.ledger.charged_steps(session.run)
            assert session.reading is not None
            assert session.reading.epsilon == pytest.approx(reads(charged), rel=1e-9)
    assert plan.guarantee() == tiny_plan().guarantee()


def test_it_ends_a_fixed_plan_before_it_would_read_more(tmp_path: Path) -> None:
    most = 0.5 * (reads(4) + reads(5))  # blocks are of three steps: the second is cut short
    plan = tiny_plan(odometer="renyi", stop_at=most)
    training = tiny_training(tmp_path, plan=plan)
    trained = training.run()
    assert trained.charged_steps == 4
    assert trained.ended is not None
    said = re.search(r"the odometer reads ([\d.]+) and", trained.ended)
    assert said is not None
    assert reads(4) <= float(said[1]) <= reads(4) * (1 + 1e-4)  # rounded up, never to the nearest
    again = tiny_training(tmp_path, plan=plan, resume=True, stream=TestStream(8), model=linear())
    assert again.run().charged_steps == 4  # it finds its figures in the ledger
    last = tiny_training(tmp_path, plan=plan, resume=True, stream=TestStream(9), model=linear())
    with last.session() as session:
        assert not session.ready()
        assert session.finished
        with pytest.raises(BudgetExhausted, match="odometer reads"), session.step():
            pytest.fail("a step was taken")


def test_it_may_end_a_run_at_exactly_what_it_reads(tmp_path: Path) -> None:
    plan = tiny_plan(odometer="renyi", stop_at=reads(5))
    assert tiny_training(tmp_path, plan=plan).run().charged_steps == 5


def test_bought_metrics_are_read_as_well(tmp_path: Path) -> None:
    metric = Metric(noise=2.0, every=2)
    plan = tiny_plan(odometer="renyi", stop_at=0.5 * (reads(2) + reads(2, metric.event)), metrics=[metric], steps=4)
    trained = tiny_training(tmp_path, plan=plan).run()
    assert (trained.charged_steps, trained.bought) == (2, ())


def test_a_run_in_which_not_even_a_step_may_be_read_is_refused(tmp_path: Path) -> None:
    plan = tiny_plan(odometer="renyi", stop_at=1e-3)
    with pytest.raises(BudgetExhausted, match=r"after another step, more than 0\.001; nothing was") as one:
        tiny_training(tmp_path, plan=plan).run()
    said = re.search(r"would read ([\d.]+) after", str(one.value))
    assert said is not None
    assert reads(1) <= float(said[1]) <= reads(1) * (1 + 1e-4)
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    assert all(entry.kind != "reservation" for entry in ledger.entries())
    ledger.close()


def test_it_ends_an_adaptive_run_wherever_its_policy_took_it(tmp_path: Path) -> None:
    plan = AdaptivePlan.make(
        PoissonSampling(rate=0.5),
        epsilon=60.0,
        delta=1e-5,
        population=24,
        clip_norm=1.0,
        policy=lambda phase, history: Controls(3.0 - 0.5 * min(phase, 4), 12.0),
        noise_multiplier=3.0,
        most_steps=60,
        odometer="renyi",
        stop_at=15.0,
        block=3,
    )
    trained = tiny_training(tmp_path, plan=plan).run()
    assert trained.ended is not None
    assert "odometer reads" in trained.ended
    events = [from_json(entry.content) for entry in trained.entries if entry.kind == "reservation"]
    rule = plan.odometer
    assert rule is not None
    spent = rule.after(rule.start(), Compose(tuple(events)))
    assert 10 < rule.read(spent).epsilon <= 15.0
    assert rule.read(rule.after(spent, plan.event(Controls(1.0, 12.0)))).epsilon > 15.0


def test_a_data_sets_filter_ends_a_fixed_plan_cleanly(tmp_path: Path) -> None:
    """What is left of the budget of all runs is less than the plan: it ends, and can be published."""
    where = tmp_path / "shared.sqlite"
    ledger = Ledger(where)
    cost = RdpOrderFilter(8.0, 1.0, 1e-5).cost(STEP)[0]
    ledger.set_budget("people", RdpOrderFilter(8.0, 5.5 * cost, 1e-5))
    ledger.close()
    trained = tiny_training(tmp_path, ledger=where, dataset_id="people").run()
    assert trained.charged_steps == 3  # blocks of three; a second does not fit
    assert trained.ended is not None
    assert "budget of data set 'people'" in trained.ended
    with pytest.raises(BudgetExhausted, match="people"):  # and a run that never begins is an error
        tiny_training(tmp_path, ledger=where, dataset_id="people", run_dir=tmp_path / "other").run()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"odometer": "hope"}, "unknown odometer"),
        ({"stop_at": 2.0}, "name one"),
        ({"odometer": "renyi", "stop_at": 0.0}, "greater than 0"),
        ({"odometer": "renyi", "stop_at": math.nan}, "number"),
        ({"odometer": RenyiOdometer(1e-5, adjacency="replace_one")}, "another adjacency"),  # type: ignore[arg-type]
        ({"odometer": ZcdpOdometer(1e-5, 1.0)}, "zCDP gains nothing from sampling"),
        ({"odometer": GaussianOdometer(1e-5, 1.0)}, "no exact mu"),
    ],
)
def test_odometers_that_cannot_be(changes: dict[str, Any], says: str) -> None:
    with pytest.raises((InputError, NotProved, ValueError), match=says):
        tiny_plan(**changes)


@pytest.mark.parametrize(
    ("sampling", "adjacency"),
    [(TruncatedPoissonSampling(rate=0.5, capacity=20), "add_remove"), (FixedSizeSampling(batch=6), "replace_one")],
)
def test_samplers_without_an_odometer(sampling: Any, adjacency: str) -> None:
    with pytest.raises((InputError, NotProved), match=r"truncated|fixed size"):
        Plan.make(sampling, population=24, steps=3, clip_norm=1.0, delta=1e-5, adjacency=adjacency, odometer="doubling")


def test_what_is_ex_post_opens_no_run_and_adds_up_with_nothing(tmp_path: Path) -> None:
    said = ExPost(0.5, 1e-5, tiny_plan().adjacency, DoublingOdometer.kind)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    with pytest.raises(InputError, match="promises nothing"):
        ledger.open_run("sha256:00", said)  # type: ignore[arg-type]
    assert list(ledger.entries()) == []
    ledger.close()


def test_a_plan_shows_its_odometer_and_a_loop_that_goes_on_is_told_how_to_end(tmp_path: Path) -> None:
    plan = tiny_plan(odometer="renyi", stop_at=reads(2))
    assert f"odometer: renyi, ends the run before it reads more than {reads(2):.6g}" in str(plan)
    assert "odometer: renyi, read only" in str(tiny_plan(odometer="renyi"))
    assert "odometer" not in str(tiny_plan())
    with tiny_training(tmp_path, plan=plan).session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(nn.CrossEntropyLoss(), chunk)
        with (
            pytest.raises(BudgetExhausted, match=r"in a loop of your own, `while session.ready\(\):` ends"),
            session.step(),
        ):
            pytest.fail("a step was taken")
