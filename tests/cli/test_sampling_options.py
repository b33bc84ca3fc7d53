"""`--sampling` of `epsilon`, `calibrate` and `compare`: the events behind the options, and what is refused."""

import json
from typing import Any

import pytest

from discreet.cli.app import run
from discreet.cli.options.sampling import Draws, Options, Sampling, draws
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import (
    Allocation,
    Compose,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Individual,
    Poisson,
    Repeat,
    TruncatedPoisson,
    tally,
)

Capture = pytest.CaptureFixture[str]
ONE, TWO = Gaussian(1.0), Gaussian(2.0)


def drawn(*given: Any, **named: int) -> Draws:
    return draws(Options(*given, **named))


def shown(capsys: Capture, arguments: str) -> dict[str, object]:
    assert run([*arguments.split(), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert isinstance(result, dict)
    return result


def number(value: object) -> float:
    assert isinstance(value, float | int)
    return float(value)


@pytest.mark.parametrize(
    ("given", "phases", "event"),
    [
        (drawn(Sampling.NONE, None, None, None), [(1.0, 5)], Repeat(ONE, 5)),
        (drawn(Sampling.POISSON, 0.1, None, None), [(1.0, 5)], Repeat(Poisson(0.1, ONE), 5)),
        (drawn(Sampling.POISSON, None, 2.5, 10.0), [(1.0, 5)], Repeat(Poisson(0.25, ONE), 5)),
        (drawn(Sampling.TRUNCATED, 0.1, None, 99.0, 30), [(1.0, 5)], Repeat(TruncatedPoisson(0.1, 30, 99, ONE), 5)),
        (drawn(Sampling.FIXED, None, 6.0, 60.0), [(1.0, 5)], Repeat(FixedSize(60, 6, ONE), 5)),
        (drawn(Sampling.FIXED, 0.015, None, None), [(1.0, 5)], Repeat(FixedSize(200, 3, ONE), 5)),
        (drawn(Sampling.POISSON, 0.01, None, None, bands=8), [(1.0, 800)], Repeat(CyclicPoisson(8, 0.08, ONE), 100)),
        (drawn(Sampling.POISSON, 0.01, None, None, bands=1), [(1.0, 800)], Repeat(Poisson(0.01, ONE), 800)),
        (drawn(Sampling.SHUFFLE, 0.1, None, None), [(1.0, 30)], Repeat(Epoch(Repeat(ONE, 10)), 3)),
        (drawn(Sampling.SHUFFLE, None, 30.0, 100.0), [(1.0, 8)], Repeat(Epoch(Repeat(ONE, 4)), 2)),
        (drawn(Sampling.SHUFFLE, None, None, None, None, 10), [(1.0, 1)], Repeat(Epoch(Repeat(ONE, 10)), 1)),
        (
            drawn(Sampling.SHUFFLE, None, None, None, None, 10),
            [(1.0, 25), (2.0, 17)],
            Compose(
                (
                    Repeat(Epoch(Repeat(ONE, 10)), 2),
                    Repeat(Epoch(Compose((Repeat(ONE, 5), Repeat(TWO, 5)))), 1),
                    Repeat(Epoch(Repeat(TWO, 10)), 1),
                    Repeat(Epoch(Repeat(TWO, 10)), 1),
                )
            ),
        ),
        (
            drawn(Sampling.ALLOCATION, None, None, None, None, 10, 3),
            [(1.0, 20), (2.0, 4)],
            Compose((Repeat(Allocation(10, 3, ONE), 2), Repeat(Allocation(10, 3, TWO), 1))),
        ),
        (drawn(Sampling.ALLOCATION, 0.3, None, None, None, None, 3), [(1.0, 9)], Repeat(Allocation(10, 3, ONE), 1)),
        (
            drawn(Sampling.INDIVIDUAL, None, None, None, per_epoch=10, full=3),
            [(1.0, 20), (2.0, 4)],
            Compose((Repeat(Individual(10, 3, ONE), 2), Repeat(Individual(10, 3, TWO), 1))),
        ),
    ],
)
def test_events_behind_the_options(given: Draws, phases: list[tuple[float, int]], event: Event) -> None:
    assert given.event(phases) == event
    assert sum(tally(event).values()) * given.period >= sum(steps for _, steps in phases)


def test_figures(capsys: Capture) -> None:
    """papers: 3.760 symmetrised, 6.92 and 61 by Wang et al., 4.008 Poisson, 19.13 shuffled, 1.96 against 10.99."""
    base = "--delta 1e-5 --steps 1800"
    fixed = shown(capsys, f"epsilon --sampling fixed --batch 600 --population 60000 --noise 1.8 {base}")
    assert fixed["adjacency"] == "replace_one"
    assert number(fixed["epsilon"]) == pytest.approx(3.760, abs=2e-3)
    moments = "--method moments"
    theirs = shown(capsys, f"epsilon --sampling fixed --rate 0.01 --noise 1.8 {base} {moments}")
    literal = shown(capsys, f"epsilon --sampling fixed --rate 0.01 --noise 0.9 {base} {moments}")
    poisson = shown(capsys, f"epsilon --rate 0.01 --noise 0.9 {base} {moments}")
    found = [round(number(row["epsilon"]), 3) for row in (theirs, literal, poisson)]
    assert found == [6.921, 61.055, 4.008]
    shuffled = "epsilon --sampling shuffle --rate 0.01 --noise 6 --epochs 400 --delta 1e-5"
    assert round(number(shown(capsys, shuffled)["epsilon"]), 2) == 19.13
    assert round(number(shown(capsys, f"{shuffled} --method zcdp-rf")["epsilon"]), 2) == 21.55


def test_compare_shows_a_shuffled_plan_beside_its_poisson_figure(capsys: Capture) -> None:
    plan = "compare --sampling shuffle --per-epoch 10000 --epochs 1 --noise 0.5 --delta 1e-6"
    found = shown(capsys, plan)
    rows, poisson = found["methods"], found["poisson"]
    assert isinstance(rows, list)
    assert isinstance(poisson, dict)
    assert found["adjacency"] == "zero_out"
    by_method = {row["method"]: row for row in rows}
    assert by_method["pld"]["lower"] >= 10.99
    assert "dearest batch" in by_method["pld"]["why"]
    assert poisson["epsilon"] <= 1.96
    assert poisson["why"].startswith("False of this plan")
    assert run(plan.split()) == 0
    out = capsys.readouterr().out
    assert "at least 10.99" in out
    assert "at most 1.95" in out
    assert shown(capsys, "compare --rate 0.01 --steps 10 --noise 2 --delta 1e-5")["poisson"] is None


def test_compare_says_why_an_adjacency_has_nothing(capsys: Capture) -> None:
    found = shown(capsys, "compare --sampling fixed --rate 0.1 --steps 9 --noise 2 --delta 1e-5 --adjacency zero_out")
    assert isinstance(found["methods"], list)
    assert all("use adjacency replace_one" in row["why"] for row in found["methods"])
    assert isinstance(found["poisson"], dict)
    assert found["poisson"]["why"].startswith("Not proved")


@pytest.mark.parametrize(
    ("options", "adjacency"),
    [
        ("--sampling truncated --rate 0.01 --capacity 900 --population 60000", Adjacency.ADD_REMOVE),
        ("--sampling fixed --batch 600 --population 60000", Adjacency.REPLACE_ONE),
        ("--sampling shuffle --batch 600 --population 60000", Adjacency.ZERO_OUT),
        ("--sampling allocation --per-epoch 100 --chosen 2", Adjacency.ADD_REMOVE),
        ("--sampling individual --per-epoch 100 --full 25", Adjacency.ADD_REMOVE),
    ],
)
def test_calibrated_noise_meets_its_budget(capsys: Capture, options: str, adjacency: Adjacency) -> None:
    found = shown(capsys, f"calibrate {options} --steps 200 --epsilon 2 --delta 1e-5")
    assert found["adjacency"] == adjacency.value
    assert 1.95 <= number(found["epsilon"]) <= 2
    again = shown(capsys, f"epsilon {options} --steps 200 --delta 1e-5 --noise {found['noise_multiplier']}")
    assert again["epsilon"] == found["epsilon"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--capacity 5 --rate 0.1", "--capacity is for --sampling truncated"),
        ("--chosen 5 --rate 0.1", "--chosen is for --sampling allocation"),
        ("--sampling fixed --rate 0.1 --per-epoch 4", "--per-epoch is for --sampling shuffle or allocation"),
        ("--sampling truncated --rate 0.1 --population 9", "needs --capacity, and --population"),
        ("--sampling truncated --rate 0.1 --capacity 9", "needs --capacity, and --population"),
        ("--sampling fixed --batch 5", "needs --batch and --population"),
        ("--sampling fixed --batch 5.5 --population 10", "whole number"),
        ("--sampling fixed --batch 11 --population 10", "must not exceed"),
        ("--sampling shuffle", "needs --per-epoch"),
        ("--sampling shuffle --per-epoch 5 --rate 0.1", "not two of them"),
        ("--sampling allocation --per-epoch 5 --chosen 6", "must not exceed"),
        ("--sampling individual --per-epoch 9 --full 10", "must not exceed the 9 steps"),
        ("--sampling individual --per-epoch 9", "needs --per-epoch, the steps of a period, and --full"),
        ("--sampling individual --full 2 --rate 0.1", "takes neither --rate nor --batch"),
        ("--full 2 --rate 0.1", "--full is for --sampling individual"),
        ("--sampling fixed --rate 0.1 --adjacency add_remove", "use adjacency replace_one"),
        ("--sampling shuffle --per-epoch 5 --adjacency add_remove", "use adjacency zero_out or replace_one"),
        ("--sampling truncated --rate 0.1 --capacity 8 --population 9 --adjacency replace_one", "fixed size"),
        ("--sampling shuffle --per-epoch 0", "--per-epoch"),
        ("--sampling cyclic-poisson --rate 0.1", "--sampling cyclic-poisson needs --bands"),
        ("--sampling fixed --batch 5 --population 10.5", "--population must be a whole number"),
    ],
)
def test_what_does_not_belong_together_is_one_line(capsys: Capture, options: str, says: str) -> None:
    assert run(["epsilon", *options.split(), "--noise", "2", "--steps", "9", "--delta", "1e-5"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert says in captured.err


def test_the_noise_of_a_period_of_allocation_is_one(capsys: Capture) -> None:
    allocation = drawn(Sampling.ALLOCATION, None, None, None, None, 10)
    with pytest.raises(InputError, match="changes inside a period of 10 steps"):
        allocation.event([(1.0, 5), (2.0, 5)])
    plan = ["--epochs", "9", "--schedule", "exponential:initial=9", "--rho", "1", "--json"]
    assert run(["calibrate", "--sampling", "fixed", "--rate", "0.1", *plan]) == 2
    assert "--sampling shuffle" in capsys.readouterr().err
    assert run(["calibrate", "--sampling", "shuffle", "--rate", "0.1", *plan]) == 0
