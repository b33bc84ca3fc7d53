"""Policies as pure functions of the public history, against the papers' rules written out step by step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from discreet.core.errors import InputError
from discreet.plan import BatchByProgress, Constant, Controls, Custom, History, NoiseByProgress, Phase, ValidationDecay
from discreet.plan.adaptive.policies import as_policy

START = Controls(10.0, 512.0)


def history(phases: list[Phase], left: float = 100.0, start: Controls = START, noise: float = 100.0) -> History:
    return History(tuple(phases), start, lambda _: left, noise)


def play(
    policy: Callable[[int, History], Controls | None], values: list[float], metric: str, **given: Any
) -> list[Controls]:
    """The controls of each phase when the metric after phase i is values[i]."""
    phases: list[Phase] = []
    for value in values:
        controls = policy(len(phases), history(phases, **given))
        assert controls is not None
        observed: dict[str, Any] = {"count": value} if metric == "count" else {"metrics": {metric: value}}
        phases.append(Phase(len(phases) + 1, controls, **observed))
    return [phase.controls for phase in phases]


def yu(values: list[float], threshold: float, m: int, period: int, factor: float) -> list[float]:
    """Equations 8 to 10 as a loop over validation epochs, with S_0 = 0."""
    sigma, last, used = 10.0, 0.0, []
    for epoch in range(1, len(values) + 1):
        used.append(sigma)
        if epoch % period == 0:
            now = sum(values[epoch - m : epoch]) / m
            if now - last <= threshold:
                sigma *= factor
            last = now
    return used


@pytest.mark.parametrize(("m", "period"), [(1, 1), (1, 3), (3, 3), (5, 10)])
def test_validation_decay_is_the_papers_rule(m: int, period: int) -> None:
    rng = random.Random(m * 100 + period)
    values = [1 - 0.8**t + rng.uniform(-0.02, 0.02) for t in range(60)]
    policy = ValidationDecay(threshold=0.01, average=m, period=period, factor=0.7)
    assert [controls.noise_multiplier for controls in play(policy, values, "accuracy")] == yu(
        values, 0.01, m, period, 0.7
    )
    counts = [1000 * value for value in values]
    counting = policy.model_copy(update={"metric": "count", "threshold": 10.0})
    assert [k.noise_multiplier for k in play(counting, counts, "count")] == yu(counts, 10.0, m, period, 0.7)


def test_validation_decay_stops_at_its_floor_and_never_raises_the_noise() -> None:
    policy = ValidationDecay(average=1, period=1, factor=0.5, floor=3.0)
    noises = [controls.noise_multiplier for controls in play(policy, [0.0] * 5, "accuracy")]
    assert noises == [10.0, 5.0, 3.0, 3.0, 3.0]
    above = policy.model_copy(update={"floor": 20.0})
    assert {controls.noise_multiplier for controls in play(above, [0.0] * 3, "accuracy")} == {10.0}
    with pytest.raises(ValueError, match="period must be at least average"):
        ValidationDecay(average=5, period=4)


def test_noise_by_progress_goes_up_while_counts_rise_and_back_to_the_start() -> None:
    start = Controls(1.0, 512.0)
    counts = [1000.0, 1300.0, 1599.0, 2000.0, 2000.0, 2000.0, 2000.0, 2000.0]
    noises = [k.noise_multiplier for k in play(NoiseByProgress(), counts, "count", start=start)]
    #                 1000 - 0: up | +300: up | +299: down | +401: up | then no rise: down to the start
    assert noises == [1.0, 1.1, 1.2, 1.1, 1.2, 1.1, 1.0, 1.0]


def test_the_budget_is_saved_only_while_it_lasts_for_more_than_so_many_epochs() -> None:
    counts = [1000.0, 2000.0, 3000.0]
    start = Controls(1.0, 512.0)
    kept = play(NoiseByProgress(epochs=50), counts, "count", start=start, left=50.0)
    assert {controls.noise_multiplier for controls in kept} == {1.0}
    saved = play(NoiseByProgress(epochs=50), counts, "count", start=start, left=50.1)
    assert [controls.noise_multiplier for controls in saved] == [1.0, 1.1, 1.2]


def test_noise_may_only_fall_as_in_fine_tuning() -> None:
    policy = NoiseByProgress(save=False, least=1.0)
    noises = [
        k.noise_multiplier for k in play(policy, [900.0] * 4 + [2000.0, 2000.0], "count", start=Controls(1.2, 512.0))
    ]
    assert noises == [1.2, 1.2, 1.1, 1.0, 1.0, 1.0]


def test_batches_shrink_while_counts_rise_down_to_the_least() -> None:
    counts = [1000.0, 2000.0, 3000.0, 4000.0, 4000.0, 4000.0, 4000.0]
    batches = [controls.expected_batch for controls in play(BatchByProgress(), counts, "count")]
    assert batches == [512.0, 384.0, 256.0, 256.0, 256.0, 384.0, 512.0]
    small = play(BatchByProgress(), counts, "count", start=Controls(1.0, 100.0))
    assert {controls.expected_batch for controls in small} == {100.0}


def test_the_noise_of_a_count_decides_what_is_a_rise() -> None:
    counts = [1000.0, 1299.0]
    one = play(NoiseByProgress(), [*counts, 0.0], "count", noise=100.0)
    other = play(NoiseByProgress(), [*counts, 0.0], "count", noise=99.0)
    assert one[-1] != other[-1]


def test_constant_keeps_and_functions_are_taken_by_name() -> None:
    assert play(Constant(), [0.0, 0.0], "accuracy") == [START, START]

    def halve(phase: int, past: History) -> Controls | None:
        return None if phase == 2 else replace(past.controls, noise_multiplier=past.controls.noise_multiplier / 2)

    policy = as_policy(halve)
    assert isinstance(policy, Custom)
    assert policy.name.endswith("halve")
    assert "function" not in policy.model_dump(mode="json")
    assert policy(2, history([])) is None
    assert policy(0, history([])) == Controls(5.0, 512.0)
    with pytest.raises(InputError, match="does not hold it"):
        Custom.model_validate(policy.model_dump(mode="json"))(0, history([]))
    with pytest.raises(InputError, match="a policy is a function"):
        as_policy(3)


@pytest.mark.parametrize("policy", [NoiseByProgress(), BatchByProgress(), ValidationDecay(average=1, period=1)])
def test_a_policy_says_what_it_misses(policy: Callable[[int, History], Controls | None]) -> None:
    with pytest.raises(InputError, match="which no phase has"):
        policy(1, history([Phase(3, START)]))
