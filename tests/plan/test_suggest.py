"""A suggested plan meets its budget, stays within its limits, and says why."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.cli.app import run
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.plan.suggest import suggest

COMMAND = ["suggest", "--population", "1437", "--epsilon", "1", "--json"]


@settings(max_examples=6, deadline=None)
@given(
    st.integers(10, 10**7),
    st.floats(0.1, 10),
    st.sampled_from([Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT]),
    st.floats(0.5, 200),
)
def test_the_plan_meets_its_budget_within_its_limits(
    population: int, epsilon: float, adjacency: Adjacency, epochs: float
) -> None:
    found = suggest(population, epsilon, adjacency=adjacency, most_epochs=epochs)
    plan = found.plan
    assert plan.guarantee().epsilon <= epsilon
    assert plan.delta < 1 / population
    assert found.epochs <= epochs
    assert plan.steps <= math.ceil(epochs * population / plan.expected_batch)
    assert plan.expected_batch <= population / 2 or plan.expected_batch == 1


def test_few_passes_get_correlated_noise_and_many_get_allocation() -> None:
    few = suggest(60_000, 3, most_epochs=3)
    assert few.plan.sampling.kind == "cyclic_poisson"
    assert few.plan.guarantee().epsilon <= 3
    assert "noise in sums" in few.reasons[1]
    many = suggest(60_000, 3, most_epochs=20)
    assert many.plan.sampling.kind == "allocation"
    assert many.plan.guarantee().epsilon <= 3


def test_replace_one_gets_batches_of_one_size() -> None:
    plan = suggest(1437, 3, adjacency=Adjacency.REPLACE_ONE).plan
    assert plan.sampling.kind == "fixed_size"
    assert plan.guarantee().epsilon <= 3


def test_a_larger_budget_needs_less_noise_at_the_same_cost() -> None:
    """Noise relative to a batch, over the run: what the search minimises."""
    spreads = []
    for epsilon in (0.5, 1, 2, 4):
        plan = suggest(10_000, epsilon, 1e-5).plan
        spreads.append(plan.noise[0].multiplier / (plan.expected_batch * math.sqrt(plan.steps)))
    assert spreads == sorted(spreads, reverse=True)


def test_too_large_a_model_is_said() -> None:
    assert "too much noise" not in " ".join(suggest(60_000, 1, parameters=26_000).reasons)
    assert "too much noise" in " ".join(suggest(1_000, 0.1, parameters=10**8).reasons)


@pytest.mark.parametrize(
    "wrong",
    [{"population": 0}, {"epsilon": -1}, {"delta": 0}, {"most_epochs": math.nan}, {"parameters": 0}],
)
def test_bad_input(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        suggest(**({"population": 100, "epsilon": 1} | wrong))  # type: ignore[arg-type]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(COMMAND) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["kind"] == "guarantee"
    assert facts["epsilon"] <= 1
    assert len(facts["reasons"]) >= 4
    assert run(COMMAND[:-1]) == 0
    assert "noise multiplier" in capsys.readouterr().out
