"""Plans that search for settings: what they cost, how they are written down, and what they refuse."""

import math
from typing import Any

import pytest
import yaml
from problems import tiny_plan
from scipy import stats

from discreet import InputError, Plan, Search, guarantee
from discreet.core.events import Selection
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, first_mass, most, next_ratio, with_mean
from discreet.plan import GroupClipping, Metric
from discreet.plan.pricing import CONFIRMABLE
from discreet.plan.search import law
from discreet.plan.validation import validate

GRID = {"optimizer.lr": [0.5, 1, True], "model.hidden": [[32], [64, 32]]}


def searching(**changes: Any) -> Plan:
    return Search.make(GRID, 10, score="validation_accuracy").over(tiny_plan(**changes))


def test_it_costs_what_the_best_of_secretly_many_runs_costs() -> None:
    plan, alone = searching(), tiny_plan()
    event = Selection(alone.event(), NegativeBinomialTrials(1.0, 0.1))
    assert plan.event() == event
    expected = guarantee(event, plan.delta * (1 - 1e-9)).epsilon * CONFIRMABLE
    assert plan.guarantee().epsilon == pytest.approx(expected, rel=1e-9)
    assert plan.guarantee().lower is None
    assert alone.guarantee().epsilon < plan.guarantee().epsilon < 2.2 * alone.guarantee().epsilon


def test_rows_that_are_held_out_cost_what_a_search_over_their_metrics_costs() -> None:
    """Here the metric is the dearer part."""
    metric = Metric(noise=1.0, rows="holdout")
    plan = searching(noise_multiplier=9.0, metrics=[metric], holdout=0.25)
    event = Selection(metric.event, NegativeBinomialTrials(1.0, 0.1))
    expected = guarantee(event, plan.delta * (1 - 1e-9)).epsilon * CONFIRMABLE
    assert plan.guarantee().epsilon == pytest.approx(expected, rel=1e-6)
    cheap = searching(noise_multiplier=9.0, metrics=[Metric(noise=90.0, rows="holdout")], holdout=0.25)
    assert cheap.guarantee().epsilon < plan.guarantee().epsilon / 2


@pytest.mark.parametrize("name", ["geometric", "logarithmic", "poisson"])
def test_calibration_meets_the_budget_of_the_whole_search(name: str) -> None:
    search = Search.make(GRID, 6, score="validation_accuracy", law_of_trials=name)
    plan = search.over(tiny_plan()).calibrate(2.0)
    assert 0.99 * 2.0 <= plan.guarantee().epsilon <= 2.0
    assert plan.search == search


def test_it_survives_json_and_yaml_with_its_fingerprint() -> None:
    plan = searching()
    text = yaml.safe_dump(plan.model_dump(mode="json"))
    again = validate(Plan, yaml.safe_load(text), "plan")
    assert again == plan
    assert again.fingerprint() == plan.fingerprint()
    assert again.search is not None
    assert [type(one["optimizer.lr"]) for one in again.search.candidates[::2]] == [float, int, bool]
    other = plan.model_copy(update={"search": plan.search.model_copy(update={"trials": PoissonTrials(10)})})
    assert other.fingerprint() != plan.fingerprint()


def test_candidates_are_all_combinations() -> None:
    search = searching().search
    assert search is not None
    assert len(search.candidates) == 6
    assert search.candidates[1] == {"optimizer.lr": 0.5, "model.hidden": (64, 32)}


@pytest.mark.parametrize("mean", [1.01, 3.0, 10.0, 250.0])
@pytest.mark.parametrize("name", ["geometric", "logarithmic", "poisson"])
def test_laws_by_name_are_those_of_scipy(name: str, mean: float) -> None:
    """Masses, means and the number that is seldom exceeded; scipy has its own code for these laws."""
    found = law(name, mean)
    if isinstance(found, PoissonTrials):
        reference = stats.poisson(mean)
    elif name == "geometric":
        reference = stats.geom(found.success)
    else:
        reference = stats.logser(1 - found.success)
    assert found.mean == pytest.approx(mean, rel=1e-9)
    assert float(reference.mean()) == pytest.approx(mean, rel=1e-7)
    k, mass = (0 if name == "poisson" else 1), first_mass(found)
    for _ in range(20):
        assert mass == pytest.approx(float(reference.pmf(k)), rel=1e-9)
        mass, k = mass * next_ratio(found, k), k + 1
    assert most(found, 0.01) == int(reference.ppf(0.99))


def test_the_law_of_a_shape_and_a_mean() -> None:
    assert with_mean(-0.5, 10).mean == pytest.approx(10, rel=1e-9)
    assert with_mean(1.0, 10) == NegativeBinomialTrials(1.0, 0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {}}, "at least one setting"),
        ({"grid": {"lr": []}}, "at least one value"),
        ({"grid": {"lr": [{}]}}, "number, text or a list"),
        ({"trials": 1}, "above 1"),
        ({"trials": 0, "law_of_trials": "poisson"}, "trials"),
        ({"trials": math.nan}, "trials"),
        ({"law_of_trials": "binomial"}, "unknown law"),
        ({"score": "holdout_accuracy"}, "does not buy"),
        ({"grid": {"clip_norm": [0.0]}}, "clip_norm"),
    ],
)
def test_refused_searches(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"grid": GRID, "trials": 10, "score": "validation_accuracy"} | changes
    with pytest.raises(ValueError, match=message):
        Search.make(settings.pop("grid"), settings.pop("trials"), **settings).over(tiny_plan())


def test_what_goes_with_no_search() -> None:
    with pytest.raises(InputError, match="odometer"):
        searching(odometer="renyi")
    groups = GroupClipping(norms={"*": 1.0})
    with pytest.raises(InputError, match="flat clipping"):
        Search.make({"clip_norm": [1.0]}, 3, score="validation_loss").over(tiny_plan(clip_norm=None, clipping=groups))
