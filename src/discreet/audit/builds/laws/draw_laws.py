"""The laws by which samplers draw, as an audit tests them: who is drawn, who with whom, and what comes again.

Draws are seen as (periods, slots, units): who took part in each step of each period. Periods are independent, and
within a slot, given how many are drawn, all units are alike. So three things make up a law: how many are drawn in a
slot, how often a unit is in a slot, and how often two are together; and two draws have no more units in common than
chance has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from discreet.audit import tails
from discreet.core.array_types import Array, BoolArray
from discreet.sampling import (
    AllocationSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    IndividualSampling,
    NoSampling,
    PoissonSampling,
    SamplingRecord,
    ShuffleSampling,
    TruncatedPoissonSampling,
)

Test = tuple[str, float]
"""A test in words, and its p-value."""

_LAGS = 12


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """The law of one step of a period: the probabilities of 0, 1, 2, ... drawn units, of which each subset is as likely
    as any other of its size."""

    sizes: Array

    @property
    def chance(self) -> float:
        """The probability that a unit is drawn."""
        return float(self._moment(lambda k: k)) / self._units

    @property
    def pair(self) -> float:
        """The probability that two units are both drawn."""
        return float(self._moment(lambda k: k * (k - 1))) / (self._units * max(1, self._units - 1))

    @property
    def _units(self) -> int:
        return len(self.sizes) - 1

    def _moment(self, of: Callable[[Array], Array]) -> float:
        return float((self.sizes * of(np.arange(len(self.sizes), dtype=np.float64))).sum())


@dataclass(frozen=True, slots=True, eq=False)
class DrawLaw:
    """The law of a period: its slots, and in how many of them each unit is, if that is fixed. `pairs`: how often a unit
    is in two given slots, if that says more."""

    slots: tuple[Slot, ...]
    times: int | None = None
    pairs: float | None = None


def law_of(sampling: SamplingRecord, units: int) -> DrawLaw | None:
    """The law of a sampler on so many units; None if the audit does not know it (or if parts take turns: `cyclic`)."""
    make = _LAWS.get(type(sampling))
    return None if make is None else make(sampling, units)


def binomial_law(trials: int, chance: float) -> Array:
    """The probabilities of 0, 1, ..., `trials`."""
    k = np.arange(trials + 1)
    found: Array
    if chance in (0.0, 1.0):
        found = (k == trials * chance).astype(np.float64)
        return found
    logs = gammaln(trials + 1) - gammaln(k + 1) - gammaln(trials - k + 1)
    found = np.exp(logs + k * math.log(chance) + (trials - k) * math.log1p(-chance))
    return found


def _fixed(size: int, units: int) -> Slot:
    return Slot((np.arange(units + 1) == size).astype(np.float64))


def _truncated(sampling: TruncatedPoissonSampling, units: int) -> DrawLaw:
    sizes = binomial_law(units, sampling.rate)
    kept = min(sampling.capacity, units)
    sizes[kept] = sizes[kept:].sum()
    sizes[kept + 1 :] = 0.0
    return DrawLaw((Slot(sizes),))


def _shuffle(sampling: ShuffleSampling, units: int) -> DrawLaw:
    sizes = [min(sampling.batch, units - first) for first in range(0, units, sampling.batch)]
    return DrawLaw(tuple(_fixed(size, units) for size in sizes), times=1)


def _allocation(sampling: AllocationSampling, units: int) -> DrawLaw:
    share, steps, chosen = sampling.chosen / sampling.period, sampling.period, sampling.chosen
    slots = (Slot(binomial_law(units, share)),) * steps
    return DrawLaw(slots, chosen, chosen * (chosen - 1) / (steps * (steps - 1)) if chosen > 1 else None)


_LAWS: dict[type, Callable[[Any, int], DrawLaw]] = {
    PoissonSampling: lambda one, units: DrawLaw((Slot(binomial_law(units, one.rate)),)),
    TruncatedPoissonSampling: _truncated,
    FixedSizeSampling: lambda one, units: DrawLaw((_fixed(one.batch, units),)),
    ShuffleSampling: _shuffle,
    AllocationSampling: _allocation,
    NoSampling: lambda _, units: DrawLaw((_fixed(units, units),)),
    IndividualSampling: lambda one, units: DrawLaw((_fixed(units, units),) * one.period),
}


def impossible(law: DrawLaw, drawn: BoolArray) -> str | None:
    """A sentence on draws that have probability 0 under the law; None if there are none."""
    for slot, rule in enumerate(law.slots):
        sizes = drawn[:, slot].sum(1)
        never = rule.sizes[sizes] == 0
        if never.any():
            possible = np.flatnonzero(rule.sizes)
            expected = str(possible[0]) if len(possible) == 1 else f"{possible[0]} to {possible[-1]}"
            return f"a batch of step {slot + 1} has {sizes[never][0]} units; its law allows {expected}"
    if law.times is not None:
        times = drawn.sum(1)
        if (times != law.times).any():
            other = int(times[times != law.times][0])
            return f"a unit is in {other} batches of a period of {len(law.slots)} steps; its law says {law.times}"
    return None


def tests(law: DrawLaw, drawn: BoolArray, again: BoolArray) -> Iterator[Test]:
    """Tests of the draws of a run, and of those of another beside it, each with its p; both (periods, slots, units)."""
    for slot, rule in enumerate(law.slots):
        where = f", step {slot + 1} of a period" if len(law.slots) > 1 else ""
        if rule.chance >= 1:
            continue
        here = drawn[:, slot]
        for name, p in _of_slot(rule, here, again[:, slot]):
            yield name + where, p
    if law.times == 1:
        yield _paired(law, drawn)
    if law.pairs is not None:
        trials = drawn.shape[0] * drawn.shape[2]
        for one in range(len(law.slots)):
            for other in range(one + 1, len(law.slots)):
                count = int((drawn[:, one] & drawn[:, other]).sum())
                yield f"steps {one + 1} and {other + 1} of a period", tails.binomial(count, trials, law.pairs)


def _paired(law: DrawLaw, drawn: BoolArray) -> Test:
    """The test for two units that are in the same steps, over whole periods, each in one step of a period."""
    periods, _, units = drawn.shape
    where = drawn.transpose(0, 2, 1).astype(np.int64)
    together = (where @ where.transpose(0, 2, 1)).sum(0)[np.triu_indices(units, 1)]
    most = int(together.max())
    chance = min(1.0, sum(rule.pair for rule in law.slots))
    p = min(1.0, len(together) * tails.at_least(most, periods, chance))
    return f"two units in the same step {most} of {periods} times", p


def _of_slot(rule: Slot, drawn: BoolArray, again: BoolArray) -> Iterator[Test]:
    periods, units = drawn.shape
    sizes = drawn.sum(1)
    yield from size_tests(rule, sizes)
    counts = drawn.sum(0)
    for what, count in (("often", int(counts.max())), ("rarely", int(counts.min()))):
        p = min(1.0, units * tails.binomial(count, periods, rule.chance))
        yield f"a unit too {what}, {count} of {periods} times", p
    whole = drawn.astype(np.int64)
    together = (whole.T @ whole)[np.triu_indices(units, 1)]
    for count in {int(together.max()), int(together.min())}:
        p = min(1.0, len(together) * tails.binomial(count, periods, rule.pair))
        yield f"two units together, {count} of {periods} times", p
    yield from _again(drawn, rule.chance)
    common = int((drawn & again).sum())
    both = list(zip(sizes.tolist(), again.sum(1).tolist(), strict=True))
    yield f"two runs alike, {common} draws", tails.overlaps(common, units, both)


def size_tests(rule: Slot, sizes: Array) -> Iterator[Test]:
    """Tests of the number of units in each batch: its mean, and its variance on both sides."""
    if rule.sizes.max() == 1:
        return
    total = int(sizes.sum())
    expected = len(sizes) * rule.chance * (len(rule.sizes) - 1)
    yield f"{total} draws, expected {expected:.0f}", tails.of_law(total, tails.repeated_law(rule.sizes, len(sizes)))
    mode = int(rule.sizes.argmax())
    alike = int((sizes == mode).sum())
    yield f"{alike} batches of {mode}", tails.binomial(alike, len(sizes), float(rule.sizes[mode]))
    near = np.abs(np.arange(len(rule.sizes)) - mode) <= 1
    close = int(near[sizes].sum())
    yield f"{close} batches of about {mode}", tails.binomial(close, len(sizes), min(1.0, float(rule.sizes[near].sum())))


def _again(drawn: BoolArray, chance: float) -> Iterator[Test]:
    """Tests for draws that are used again some periods later, at each distance."""
    periods, units = drawn.shape
    for lag in range(1, min(periods // 2, max(2, min(_LAGS, round(3 / chance)))) + 1):
        first = np.arange(periods - lag)
        first = first[first // lag % 2 == 0]  # disjoint pairs
        common = int((drawn[first] & drawn[first + lag]).sum())
        sizes = list(zip(drawn[first].sum(1).tolist(), drawn[first + lag].sum(1).tolist(), strict=True))
        yield f"{lag} draws later again, {common} draws", tails.overlaps(common, units, sizes)


def cyclic(sampling: CyclicPoissonSampling, drawn: BoolArray, again: BoolArray) -> tuple[str | None, list[Test]]:
    """Impossible draws, and tests, of cyclic Poisson sampling, where parts of the data take turns. The part of a unit
    counts as known."""
    turns = drawn.any(0).sum(0)  # in how many of the slots of a round each unit ever was
    if (turns > 1).any():
        return f"a unit is drawn in {int(turns.max())} different steps of a round; each has one turn", []
    there: BoolArray = np.max(drawn, axis=1)
    also: BoolArray = np.max(again, axis=1)
    rounds, units = there.shape
    total, rate = int(there.sum()), sampling.rate
    found = [(f"{total} draws, expected {rounds * units * rate:.0f}", tails.binomial(total, rounds * units, rate))]
    for what, count in (("often", int(there.sum(0).max())), ("rarely", int(there.sum(0).min()))):
        p = min(1.0, units * tails.binomial(count, rounds, rate))
        found.append((f"a unit too {what}, {count} of {rounds} times", p))
    for lag in range(1, min(rounds // 2, max(2, min(_LAGS, round(3 / rate)))) + 1):
        first = np.arange(rounds - lag)
        first = first[first // lag % 2 == 0]
        common = int((there[first] & there[first + lag]).sum())
        p = tails.binomial(common, len(first) * units, rate**2)
        found.append((f"{lag} rounds later again, {common} draws", p))
    common = int((there & also).sum())
    found.append((f"two runs alike, {common} draws", tails.binomial(common, rounds * units, rate**2)))
    return None, found
