"""A plan claims "at least" only where one unit and one data set show all of its events at their worst."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from discreet.core.events import SparseHistogram
from discreet.plan import Metric, NoSampling, Plan

BASE: dict[str, Any] = {"population": 100, "steps": 1, "clip_norm": 1.0, "delta": 1e-5}


def plan(**changes: Any) -> Plan:
    return Plan.make(NoSampling(), **BASE | {"noise_multiplier": 2.0} | changes)


def exact(mu: float, epsilon: float) -> float:
    """delta of a Gaussian (Balle and Wang 2018, theorem 8)."""
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def test_a_replaced_row_is_not_in_both_parts_at_once() -> None:
    """It moves the sum by twice the clip norm, or the held-out accuracy by its range, or one of each: mu is 1 at most.
    Both parts together would have mu sqrt 2, which "at least 6.57" was read off."""
    held = plan(adjacency="replace_one", holdout=0.3, metrics=[Metric(noise=2.0, rows="holdout")])
    assert exact(1.0, 4.38) < 1e-5 < exact(math.sqrt(2), 6.57)
    found = held.guarantee()
    assert found.lower is None
    assert found.epsilon > 6.57
    assert np.all(held.trade_off().delta_lower(np.linspace(0, 5, 11)) == 0)
    alone = plan(adjacency="replace_one").guarantee()
    assert alone.lower is not None
    assert alone.lower > 4.3


def test_a_replaced_or_zeroed_row_leaves_the_number_of_rows() -> None:
    size = [Metric(noise=8.0), Metric(kind="size", noise=0.5)]
    for adjacency in ("replace_one", "zero_out"):
        assert plan(adjacency=adjacency, metrics=size).guarantee().lower is None
    for kept in ({"adjacency": "replace_one", "metrics": size[:1]}, {"metrics": size}):
        assert plan(**kept).guarantee().lower is not None


ENOUGH = [(10, False), (78, False), (79, True), (1000, True)]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("rows", "known"), ENOUGH)
def test_a_histogram_shows_a_value_that_enough_rows_have(rows: int, known: bool, adjacency: str) -> None:
    """Threshold 39 and forty deviations of noise 1: with fewer rows no value need ever be shown. A replaced row is at
    its worst where two values are. (Of one value alone mu is 1, not sqrt 2: epsilon 4.38 and not 6.57.)"""
    population = 2 * rows if adjacency == "replace_one" else rows
    bought = plan(
        population=population, before=[SparseHistogram(1.0, 39.0)], noise_multiplier=100.0, adjacency=adjacency
    )
    assert (bought.guarantee().lower is not None) is known
    assert bool(np.any(bought.trade_off().delta_lower(np.linspace(0, 5, 11)) > 0)) is known


@pytest.mark.parametrize("adjacency", ["add_remove", "zero_out"])
def test_no_test_of_one_unit_sees_both_parts(adjacency: str) -> None:
    """A unit is in one part: mu is 1/2 there, and sqrt(1/2) in both together."""
    held = plan(adjacency=adjacency, holdout=0.3, metrics=[Metric(noise=2.0, rows="holdout")])
    curve, rates = held.trade_off(), np.array([0.01, 0.1, 0.5, 0.9])
    best = ndtr(-ndtri(rates) - 0.5)
    assert np.all(curve.upper(rates) >= best - 1e-12)
    assert curve.lower(rates) == pytest.approx(best, rel=1e-3)
    assert np.all(curve.lower(rates) <= best)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        at = np.array([epsilon])
        assert curve.delta_lower(at)[0] <= exact(0.5, epsilon) <= curve.delta(at)[0]
        assert curve.delta(at)[0] == pytest.approx(exact(0.5, epsilon), rel=1e-3, abs=1e-9)
