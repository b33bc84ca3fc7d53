"""Plans that search for settings: what they cost, how they are written down, and what they refuse."""

import math
from typing import Any

import numpy as np
import pytest
import yaml
from problems import tiny_plan
from scipy import stats

from discreet import Adjacency, InputError, Plan, guarantee, trade_off
from discreet.core.events import BoundedRange, Compose, Selection
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, first_mass, most, next_ratio, with_mean
from discreet.plan import (
    AllocationSampling,
    FixedSizeSampling,
    GroupClipping,
    Metric,
    NoSampling,
    PartsSearch,
    Search,
    ShuffleSampling,
)
from discreet.plan.pricing import CONFIRMABLE
from discreet.plan.pydantic_base import validate
from discreet.plan.tuning.random_stopping import law

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
        (
            {"grid": [{"lr": 1}, {"lr": 2}]},
            "^the grid of a search is a mapping from names to lists of values, not a list$",
        ),
        ({"grid": {"lr": 1}}, "^the grid of a search: lr needs a list of values, not an int$"),
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


def parts(**changes: Any) -> Plan:
    return PartsSearch.make(GRID).over(tiny_plan(**changes))


def test_parts_cost_the_dearer_of_one_run_and_one_choice() -> None:
    """The sharpest choice that costs no more than a run: its profile, solved for the range, leaves nothing over."""
    plan, alone = parts(), tiny_plan()
    assert isinstance(plan.search, PartsSearch)
    assert (plan.search.parts, plan.search.share) == (7, 1 / 7)
    assert plan.event() == Compose((alone.event(), BoundedRange(plan.search.choice.epsilon)))
    found = plan.guarantee()
    assert (found.epsilon, found.lower, found.method) == (alone.guarantee().epsilon, None, "disjoint-parts")
    spendable = plan.delta * (1 - 1e-9)
    assert guarantee(plan.search.choice, spendable).epsilon == pytest.approx(found.epsilon / CONFIRMABLE, rel=1e-8)
    sharper = plan.model_copy(update={"search": plan.search.model_copy(update={"epsilon": 3 * found.epsilon})})
    assert sharper.guarantee().epsilon > 2 * found.epsilon, "the choice is priced too"
    for delta in (1e-3, 1e-7):
        choice, run = guarantee(plan.search.choice, delta).epsilon, alone.guarantee(delta).epsilon
        assert plan.guarantee(delta).epsilon == pytest.approx(max(choice * CONFIRMABLE, run), rel=1e-6)
        assert plan.guarantee(delta).epsilon < guarantee(plan.event(), delta).epsilon, "less than the sum"


def test_no_test_on_either_part_beats_the_curve_of_a_search_over_parts() -> None:
    plan, shares = parts(), np.linspace(0, 1, 41)
    assert isinstance(plan.search, PartsSearch)
    whole = plan.trade_off().lower(shares)
    each = [tiny_plan().trade_off().lower(shares), trade_off(plan.search.choice).lower(shares)]
    assert np.all(whole <= np.minimum(*each) + 1e-12)
    assert np.all(np.minimum(*each) - whole < 0.02)


def test_calibration_of_a_search_over_parts_fits_its_choice() -> None:
    plan = parts().calibrate(2.0)
    assert isinstance(plan.search, PartsSearch)
    assert 0.999 * 2.0 <= plan.guarantee().epsilon <= 2.0
    assert 0.999 * 2.0 < guarantee(plan.search.choice, plan.delta).epsilon <= 2.0
    again = validate(Plan, yaml.safe_load(yaml.safe_dump(plan.model_dump(mode="json"))), "plan")
    assert (again, again.fingerprint()) == (plan, plan.fingerprint())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metrics": [Metric(noise=1.0)]}, "buys nothing else"),
        ({"metrics": [Metric(noise=1.0, rows="holdout")], "holdout": 0.2}, "buys nothing else"),
        ({"odometer": "renyi"}, "odometer"),
        ({"noise_multiplier": 1e-160, "batch": 24}, "no finite epsilon"),
    ],
)
def test_what_goes_with_no_parts(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parts(**changes)


@pytest.mark.parametrize(
    "sampling", [ShuffleSampling(batch=6), FixedSizeSampling(batch=6), NoSampling(), AllocationSampling(period=4)]
)
def test_parts_go_with_samplers_that_need_no_public_size(sampling: Any) -> None:
    adjacency = "replace_one" if isinstance(sampling, FixedSizeSampling) else "zero_out"
    run = Plan.make(
        sampling, population=24, steps=4, delta=1e-5, clip_norm=1.0, noise_multiplier=3.0, adjacency=adjacency
    )
    search = PartsSearch.make(GRID)
    if isinstance(sampling, NoSampling | AllocationSampling):
        assert search.over(run).guarantee().epsilon == run.guarantee().epsilon
        replaced = run.model_copy(update={"adjacency": Adjacency.REPLACE_ONE})
        with pytest.raises(InputError, match="may change parts"):
            search.over(replaced)
    else:
        with pytest.raises(InputError, match=r"may change parts|make random"):
            search.over(run)


def test_a_plan_without_the_range_of_its_choice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"search\.over"):
        Plan.model_validate(tiny_plan().model_dump() | {"search": PartsSearch.make(GRID).model_dump()})
