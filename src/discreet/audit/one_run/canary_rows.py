"""The rows of an audit: canaries in the world that their coins say, among rows that are public or made up.

| adjacency   | a canary that is in | a canary that is out                     |
|-------------|---------------------|------------------------------------------|
| add_remove  | a row               | no row                                   |
| zero_out    | a row               | a row whose gradient is zero             |
| replace_one | a row               | another row, with the opposite gradient  |

So worlds that differ in one coin are neighbours of the plan, and its guarantee is about them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array, BoolArray, IntArray
from discreet.core.errors import InputError
from discreet.plan import Plan


class Rows(NamedTuple):
    """Inputs and targets of rows that are declared public or made up."""

    inputs: Tensor
    targets: Tensor

    def taken(self, places: IntArray) -> Rows:
        """The rows at `places`."""
        chosen = torch.from_numpy(places)
        return Rows(self.inputs[chosen], self.targets[chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Canaries:
    """`inside`: the rows of canaries that are in; `outside`: of those that are out, under replace-one. `numbers`: of
    their places; 0 for canaries that have none. `coins`: True is in."""

    inside: Rows
    outside: Rows
    numbers: IntArray
    coins: BoolArray

    def in_world(self, adjacency: Adjacency) -> tuple[Rows, IntArray]:
        """The rows that are in the data, and their numbers for a `MarkedModel`."""
        if adjacency is Adjacency.ADD_REMOVE:
            kept = np.flatnonzero(self.coins)
            return self.inside.taken(kept), self.numbers[kept]
        if adjacency is Adjacency.ZERO_OUT:
            return self.inside, np.where(self.coins, self.numbers, -1)
        chosen = torch.from_numpy(self.coins)
        pairs = zip(self.inside, self.outside, strict=True)
        rows = [torch.where(chosen.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in pairs]
        return Rows(*rows), self.numbers


def loud_canaries(rows: Rows, count: int, rng: np.random.Generator) -> Canaries:
    """Canaries with places of their own. Their targets pull the first output up, or down in the other world."""
    chosen = rows.taken(rng.integers(len(rows.targets), size=count))
    up, down = pulls(rows.targets)
    targets = [chosen.targets.clone() for _ in range(2)]
    for one, value in zip(targets, (up, down), strict=True):
        one[(slice(None), 0) if one.dim() > 1 else slice(None)] = value
    inside, outside = (Rows(chosen.inputs, one) for one in targets)
    return Canaries(inside, outside, np.arange(1, count + 1), rng.random(count) < 0.5)


def pulls(targets: Tensor) -> tuple[float, float]:
    """Targets that pull the first output up and down: the first class and the next; numbers beyond all others."""
    if not targets.is_floating_point():
        return 0, 1
    low, high = float(targets.min()), float(targets.max())
    spread = max(high - low, 1.0)
    return high + 2 * spread, low - 2 * spread


def mislabelled_canaries(rows: Rows, count: int, classes: int | None, rng: np.random.Generator) -> Canaries:
    """Different rows with targets that are wrong: another class, or the number at the other end of the range. There are
    at most as many as rows."""
    chosen = rows.taken(rng.permutation(len(rows.targets))[:count])
    right = chosen.targets
    if right.is_floating_point():
        low, high = rows.targets.amin(0), rows.targets.amax(0)
        wrong = torch.where(right > (low + high) / 2, low, high)
    else:
        assert classes is not None
        moved = torch.from_numpy(rng.integers(1, max(2, classes), size=len(right))).to(right.dtype)
        wrong = (right + moved) % max(2, classes)
    numbers = np.zeros(len(right), dtype=np.int64)
    return Canaries(Rows(chosen.inputs, wrong), chosen, numbers, rng.random(len(right)) < 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """All rows of an audit in random order, and the number of each for a `MarkedModel`."""

    rows: Rows
    numbers: Array


def world(rows: Rows, groups: list[Canaries], plan: Plan, rng: np.random.Generator) -> World:
    """The canaries in their worlds, and as many other rows as the plan's population has room for, repeated if there are
    too few. `InputError` if it has none."""
    adjacency = plan.adjacency
    slots = sum(len(one.coins) for one in groups)
    taken = slots / 2 if adjacency is Adjacency.ADD_REMOVE else float(slots)
    others = int(plan.population) - int(np.ceil(taken))
    if others < 1:
        raise InputError(
            f"{slots:,} canaries leave no room for other rows in a population of {plan.population:,g}; give fewer with "
            "--canaries, or a larger --population"
        )
    parts = [one.in_world(adjacency) for one in groups]
    places = rng.permutation(len(rows.targets))
    parts.append((rows.taken(np.resize(places, others)), np.zeros(others, dtype=np.int64)))
    order = rng.permutation(sum(len(numbers) for _, numbers in parts))
    joined = Rows(*(torch.cat([part[0][side] for part in parts]) for side in (0, 1)))
    return World(joined.taken(order), np.concatenate([numbers for _, numbers in parts])[order])
