"""Canaries are in the worlds that their coins say, among as many rows as the plan's population has room for."""

import numpy as np
import pytest
import torch

from discreet.audit.one_run.canary_rows import Rows, loud_canaries, mislabelled_canaries, pulls, world
from discreet.core.errors import InputError
from discreet.plan import FixedSizeSampling, NoSampling, Plan, PoissonSampling, Sampling, ShuffleSampling

ROWS = Rows(torch.arange(60.0)[:, None], torch.arange(60) % 5)


def plan_of(sampling: Sampling, adjacency: str, population: int = 100) -> Plan:
    return Plan.make(sampling, population=population, steps=4, clip_norm=1.0, delta=1e-5, adjacency=adjacency)


def test_added_or_removed() -> None:
    rng = np.random.default_rng(0)
    canaries = loud_canaries(ROWS, 40, rng)
    made = world(ROWS, [canaries], plan_of(PoissonSampling(rate=0.1), "add_remove"), rng)
    assert sorted(made.numbers[made.numbers > 0]) == sorted(canaries.numbers[canaries.coins])
    assert (made.numbers < 0).sum() == 0
    assert (made.numbers == 0).sum() == 80
    assert set(made.rows.targets[made.numbers > 0].tolist()) == {0}


def test_zeroed_out() -> None:
    rng = np.random.default_rng(1)
    canaries = loud_canaries(ROWS, 40, rng)
    made = world(ROWS, [canaries], plan_of(ShuffleSampling(batch=25), "zero_out"), rng)
    assert len(made.numbers) == 100
    assert sorted(made.numbers[made.numbers > 0]) == sorted(canaries.numbers[canaries.coins])
    assert (made.numbers == -1).sum() == (~canaries.coins).sum()


def test_replaced() -> None:
    rng = np.random.default_rng(2)
    canaries = loud_canaries(ROWS, 40, rng)
    made = world(ROWS, [canaries], plan_of(FixedSizeSampling(batch=10), "replace_one"), rng)
    assert len(made.numbers) == 100
    order = np.argsort(made.numbers)[-40:]
    assert made.numbers[order].tolist() == list(range(1, 41))
    assert made.rows.targets[order].tolist() == np.where(canaries.coins, 0, 1).tolist()


def test_both_kinds_share_a_run() -> None:
    rng = np.random.default_rng(3)
    groups = [loud_canaries(ROWS, 20, rng), mislabelled_canaries(ROWS, 30, 5, rng)]
    made = world(ROWS, groups, plan_of(NoSampling(), "add_remove"), rng)
    assert len(made.numbers) == 75 + sum(int(one.coins.sum()) for one in groups)


def test_wrong_targets_are_wrong_and_rows_differ() -> None:
    canaries = mislabelled_canaries(ROWS, 100, 5, np.random.default_rng(4))
    assert len(canaries.coins) == 60
    assert len(torch.unique(canaries.inside.inputs)) == 60
    assert torch.equal(canaries.outside.targets, canaries.outside.inputs[:, 0].long() % 5)
    assert (canaries.inside.targets != canaries.outside.targets).all()
    assert set(canaries.inside.targets.tolist()) == {0, 1, 2, 3, 4}
    numbers = Rows(ROWS.inputs, torch.linspace(-1, 3, 60)[:, None])
    found = mislabelled_canaries(numbers, 60, None, np.random.default_rng(4))
    assert torch.equal(found.inside.targets, torch.where(found.outside.targets > 1, -1.0, 3.0))


def test_targets_that_pull_the_first_output() -> None:
    assert pulls(torch.tensor([2, 3])) == (0, 1)
    up, down = pulls(torch.tensor([[0.0], [1.0]]))
    assert up > 1
    assert down < 0


def test_coins_are_fair() -> None:
    """10,000 coins: outside 4,750 to 5,250 with probability 6e-7."""
    coins = loud_canaries(ROWS, 10_000, np.random.default_rng(5)).coins
    assert 4750 < coins.sum() < 5250


@pytest.mark.parametrize(("adjacency", "canaries"), [("add_remove", 200), ("zero_out", 100)])
def test_too_many_canaries_are_one_line(adjacency: str, canaries: int) -> None:
    rng = np.random.default_rng(6)
    with pytest.raises(InputError, match="no room for other rows"):
        world(ROWS, [loud_canaries(ROWS, canaries, rng)], plan_of(NoSampling(), adjacency), rng)
