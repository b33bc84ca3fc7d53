"""Fields of plans, metrics and odometers that no run can have: refused by the verifier, whatever a schema lets pass."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from problems import tiny_plan

from discreet.core.errors import InputError
from discreet.plan import Metric
from discreet.verification.checks.plan_events import planned
from discreet.verification.checks.pre_queries import queries_of
from discreet.verification.checks.private_metrics import all_events, metrics_of
from discreet.verification.recompute import filters, odometers
from discreet.verification.recompute.renyi import MOST_ORDERS

SHARED = {"adjacency": "add_remove", "unit": "example", "delta": 1e-5}
ODOMETERS: dict[str, dict[str, Any]] = {
    "doubling": {"orders": [2.0, 5.0]},
    "renyi": {"orders": [2.0, 5.0]},
    "zcdp": {"scale": 1.0},
    "gdp": {"cap": 2.0, "slope": 0.5},
}
NUMBERS = [0.0, -1.0, math.nan, math.inf, True, "1", None]
ORDERS = [[], [1.0], [0.5, 2.0], [5.0, 2.0], [2.0, 2.0], [2.0, math.nan], [2.0 + i for i in range(MOST_ORDERS + 1)]]

WRONG = [
    *((kind, {"delta": value}) for kind in ODOMETERS for value in [*NUMBERS, 1.0]),
    *((kind, {"orders": orders}) for kind in ("doubling", "renyi") for orders in ORDERS),
    *(("zcdp", {"scale": value}) for value in NUMBERS),
    *(("gdp", {"cap": value}) for value in NUMBERS),
    *(("gdp", {"slope": value}) for value in (-0.6, 1, True, math.nan, math.inf, "1", None)),
    ("gdp", {"scale": 1.0}),
    ("bell", {}),
]


def odometer(kind: str, changed: dict[str, Any]) -> dict[str, Any]:
    return {"odometer": kind} | SHARED | ODOMETERS.get(kind, {}) | changed


@pytest.mark.parametrize("kind", ODOMETERS)
def test_an_odometer_that_can_be_is_known(kind: str) -> None:
    assert odometers.checked(odometer(kind, {})) == kind


@pytest.mark.parametrize(("kind", "changed"), WRONG)
def test_other_odometers_are_refused(kind: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        odometers.checked(odometer(kind, changed))


@pytest.mark.parametrize("value", NUMBERS)
@pytest.mark.parametrize(("kind", "name"), [("zcdp", "rho"), ("gdp", "mu_squared")])
def test_limits_of_filters_are_positive(kind: str, name: str, value: Any) -> None:
    assert filters.checked({"filter": kind, name: 0.5} | SHARED) == kind
    with pytest.raises(InputError):
        filters.checked({"filter": kind, name: value} | SHARED)


@pytest.mark.parametrize("orders", ORDERS)
def test_orders_of_filters_rise_above_1(orders: list[float]) -> None:
    limits = [0.5] * len(orders)
    assert filters.checked({"filter": "rdp-curve", "orders": [2.0, 5.0], "limits": [0.1, 0.5]} | SHARED)
    with pytest.raises(InputError):
        filters.checked({"filter": "rdp-curve", "orders": orders, "limits": limits} | SHARED)


@pytest.fixture
def plan() -> dict[str, Any]:
    """A plan as a certificate has it, with a metric on rows that are held out, and their number."""
    metrics = [Metric(noise=9.0, every=2, rows="holdout"), Metric(kind="size", noise=9.0, rows="holdout")]
    made = tiny_plan(metrics=metrics, holdout=0.3, steps=6, adjacency="zero_out")
    found: dict[str, Any] = json.loads(made.model_dump_json())
    assert all_events(found)
    return found


@pytest.mark.parametrize("share", [0, 1, 0.0, 1.0, 1.5, -0.5, math.nan, True, "0.3", None])
def test_a_share_is_between_0_and_1(share: Any, plan: dict[str, Any]) -> None:
    plan["holdout"]["share"] = share
    with pytest.raises(InputError, match="a share between 0 and 1, and a salt"):
        all_events(plan)


def test_a_holdout_has_no_other_fields(plan: dict[str, Any]) -> None:
    plan["holdout"]["more"] = 1
    with pytest.raises(InputError, match="a share between 0 and 1, and a salt"):
        all_events(plan)


@pytest.mark.parametrize("changed", [{"kind": "loss"}, {"bound": 1.0}])
def test_a_loss_alone_has_a_bound(changed: dict[str, Any], plan: dict[str, Any]) -> None:
    plan["metrics"][0] |= changed
    with pytest.raises(InputError, match="a loss has a bound, and nothing else has"):
        all_events(plan)


@pytest.mark.parametrize("sampling", [{"kind": "fixed_size", "batch": 5}, {"kind": "shuffle", "batch": 4}])
def test_a_sampler_that_knows_the_number_of_rows_goes_with_no_holdout(
    sampling: dict[str, Any], plan: dict[str, Any]
) -> None:
    plan["sampling"] = sampling
    with pytest.raises(InputError, match="needs to know how many rows it draws from"):
        metrics_of(plan)


@pytest.mark.parametrize("changed", [{"every": 2}, {"rate": 0.5}])
def test_a_size_is_bought_once_of_all(changed: dict[str, Any], plan: dict[str, Any]) -> None:
    plan["metrics"][1] |= changed
    with pytest.raises(InputError, match="a size is bought once, of all units"):
        all_events(plan)


def test_a_metric_falls_inside_no_period(plan: dict[str, Any]) -> None:
    """Which is charged whole: a metric every two steps, of a period of three."""
    plan |= {"sampling": {"kind": "allocation", "period": 3, "chosen": 1}}
    with pytest.raises(InputError, match="a metric falls inside a period of 3 steps"):
        all_events(plan)


def test_queries_before_the_first_step_are_about_rows(plan: dict[str, Any]) -> None:
    query = {"event": "gaussian", "noise_multiplier": 9.0, "query": "count"}
    assert queries_of(plan | {"before": [query]}) == [query]
    with pytest.raises(InputError, match="protect single rows only"):
        queries_of(plan | {"before": [query], "unit": "user"})


@pytest.mark.parametrize("before", [{}, "count", [{"event": "epoch"}], [{"event": "compose", "of": []}]])
def test_other_things_do_not_come_before_the_first_step(before: Any, plan: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="a list of events, each one of"):
        queries_of(plan | {"before": before})


@pytest.mark.parametrize("rates", [[(0.5, 5)], [(0.5, 7)], [(0.5, 0), (0.25, 6)], [(0.5, -1), (0.25, 7)]])
def test_batches_are_drawn_in_as_many_steps_as_have_noise(rates: list[tuple[float, int]], plan: dict[str, Any]) -> None:
    plan["sampling"]["rate"] = 0.5
    plan["rates"] = [{"rate": 0.5, "steps": 2}, {"rate": 0.25, "steps": 4}]
    assert sum(count for _, count in planned(plan)) == 6
    plan["rates"] = [{"rate": rate, "steps": steps} for rate, steps in rates]
    with pytest.raises(InputError, match="cover different numbers of steps"):
        planned(plan)
