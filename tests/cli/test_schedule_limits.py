"""`discreet calibrate --schedule`: rate, epochs and initial noise under a limit, each from the other two."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from discreet.accounting.schedules import parse
from discreet.cli.app import run

Capture = pytest.CaptureFixture[str]
SAMPLED = ["--rate", "0.01", "--delta", "1e-5", "--epsilon", "1"]


def found(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert run(["calibrate", *arguments, "--json"]) == 0
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


@pytest.mark.parametrize(
    ("schedule", "epochs"),
    [
        ("uniform:initial=8", 100),
        ("time:initial=10,rate=0.05", 38),
        ("step:initial=10,rate=0.6,period=10", 31),
        ("exponential:initial=10,rate=0.01", 71),
        ("polynomial:initial=10,rate=3,end=2,period=100", 44),
    ],
)
def test_the_epochs_of_table_two(schedule: str, epochs: int, capsys: Capture) -> None:
    """Yu et al. 2019, Table II: how long rho 0.78125 lasts."""
    facts = found(capsys, "--schedule", schedule, "--rho", "0.78125", "--sampling", "none")
    assert facts["epochs"] == epochs
    assert facts["rho"] <= 0.78125 * (1 + 2e-9)


@pytest.mark.parametrize(
    "schedule",
    [
        "uniform:",
        "time:rate=0.05",
        "exponential:rate=0.03",
        "step:rate=0.6,period=10",
        "polynomial:rate=3,end=2,period=50",
    ],
)
def test_an_initial_noise_lasts_for_exactly_its_epochs(schedule: str, capsys: Capture) -> None:
    """Under rho, recomputed: the sum of 1 / 2 sigma^2 over the epochs is the budget, to a millionth."""
    facts = found(capsys, "--schedule", schedule, "--epochs", "40", "--rho", "0.5", "--sampling", "none")
    name, _, rest = schedule.partition(":")
    whole = parse(f"{name}:initial={facts['initial']!r}" + (f",{rest}" if rest else ""))
    spent = math.fsum(0.5 / whole.multiplier(t) ** 2 for t in range(40))
    assert spent <= 0.5 * (1 + 2e-9)
    assert spent > 0.5 * (1 - 1e-5)


def test_all_three_are_found_from_the_other_two_under_epsilon(capsys: Capture) -> None:
    rate = found(capsys, "--schedule", "exponential:initial=4", "--epochs", "10", *SAMPLED)
    shape = f"exponential:initial=4,rate={rate['rate']!r}"
    epochs = found(capsys, "--schedule", shape, *SAMPLED)
    assert epochs["epochs"] == 10
    assert epochs["epsilon"] == rate["epsilon"] <= 1
    initial = found(capsys, "--schedule", f"exponential:rate={rate['rate']!r}", "--epochs", "10", *SAMPLED)
    assert initial["epsilon"] <= 1
    assert initial["lower"] > 1 - 1e-4
    assert initial["initial"] < 4  # at 4 not all of the budget is spent after ten epochs


def test_under_replace_one_a_schedule_costs_four_times_as_much(capsys: Capture) -> None:
    base = ["--schedule", "exponential:initial=20,rate=0.01", "--sampling", "shuffle", "--per-epoch", "10"]
    near = found(capsys, *base, "--rho", "0.1", "--adjacency", "zero_out")
    far = found(capsys, *base, "--rho", "0.4", "--adjacency", "replace_one")
    assert near["epochs"] == far["epochs"]
    assert far["rho"] == pytest.approx(4 * near["rho"])


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures(suffix: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / f"schedule.{suffix}"
    found(capsys, "--schedule", "exponential:initial=4,rate=0.1", *SAMPLED, "--plot", str(path))
    assert path.stat().st_size > 8000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--schedule", "exponential:rate=0.1", *SAMPLED], "initial and --epochs are left out"),
        (["--schedule", "exponential:initial=4,rate=0.1", "--epochs", "3", *SAMPLED], "nothing is left to find"),
        (["--schedule", "uniform:initial=4", "--epochs", "3", *SAMPLED], "nothing is left to find"),
        (["--schedule", "piecewise:0=4,2=3", "--epochs", "3", *SAMPLED], "nothing is left to find"),
        (["--schedule", "exponential:initial=4,per=step", *SAMPLED, "--epochs", "3"], "leave out per=step"),
        (["--schedule", "exponential:initial=4", "--epochs", "2.5", *SAMPLED], "whole number"),
        (["--schedule", "uniform:initial=0.5", *SAMPLED], "not even one epoch"),
        (["--schedule", "linear:end=0.3,period=2", "--epochs", "50", *SAMPLED], "no initial noise"),
        (["--noise", "1", "--steps", "5", *SAMPLED, "--plot", "x.png"], "--plot draws a --schedule"),
        (["--schedule", "uniform:initial=4", *SAMPLED, "--plot", "x.gif"], ".png or .svg"),
        (["--rho", "1"], "--rho needs --schedule"),
        (["--rho", "1", "--schedule", "uniform:initial=4", "--noise", "1"], "--rho does not heed --noise:"),
        (["--rho", "1", "--schedule", "uniform:initial=4", "--steps", "5"], "--rho does not heed --steps:"),
        (["--rho", "1", "--schedule", "uniform:initial=4", "--method", "rdp"], "--rho does not heed --method:"),
    ],
)
def test_what_cannot_be_found(arguments: list[str], says: str, capsys: Capture) -> None:
    assert run(["calibrate", *arguments]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "asked",
    [["--sampling", "poisson"], ["--rate", "0.01"], ["--batch", "3", "--population", "300"]],
    ids=["by name", "by rate", "by batch"],
)
def test_poisson_batches_have_no_rho(asked: list[str], capsys: Capture) -> None:
    """A unit may be in several batches of an epoch. Here epsilon is at least 34.16; of disjoint batches it is 32.35."""
    schedule = ["--schedule", "uniform:initial=0.3", "--rho", "11.2", "--delta", "1e-5"]
    assert found(capsys, *schedule)["epsilon"] < 32.4
    assert run(["calibrate", *asked, *schedule]) == 2
    assert "a unit may be in several Poisson batches of an epoch" in capsys.readouterr().err


@pytest.mark.parametrize("limit", [["--rho", "0.1"], ["--mu", "0.3"], ["--epsilon", "1", "--delta", "1e-5"]])
def test_the_initial_noise_is_shown_rounded_up(limit: list[str], capsys: Capture) -> None:
    plan = ["--sampling", "none", "--schedule", "exponential:rate=0.02", "--epochs", "10", *limit]
    exact = found(capsys, *plan)["initial"]
    assert run(["calibrate", *plan]) == 0
    shown = capsys.readouterr().out.split(":")[0].removeprefix("initial ")
    assert exact <= float(shown) < exact * (1 + 1e-5)
