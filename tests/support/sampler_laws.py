"""The laws of samplers on few units, by enumeration in rational numbers, and how draws are compared with them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy import stats

from discreet.core.events import (
    Allocation,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Individual,
    Poisson,
    Repeat,
    TruncatedPoisson,
)
from discreet.randomness import Stream, TestStream
from discreet.sampling import (
    AllocationSampler,
    CyclicPoissonSampler,
    EveryoneSampler,
    FixedSizeSampler,
    IndividualSampler,
    PoissonSampler,
    Sampler,
    ShuffleSampler,
    TruncatedPoissonSampler,
)

ONE = Gaussian(1.0)

Draw = tuple[tuple[int, ...], ...]
"""Who takes part in each step of a period."""

Law = dict[Draw, Fraction]


@dataclass(frozen=True)
class Case:
    """A sampler on few units, its law by enumeration, and what its period releases."""

    sampler: Sampler
    size: int
    law: Law
    inner: Event
    event: Event


def poisson_law(rate: Fraction, size: int) -> Law:
    law: Law = {}
    for drawn in powerset(range(size)):
        law[(drawn,)] = rate ** len(drawn) * (1 - rate) ** (size - len(drawn))
    return law


def truncated_law(rate: Fraction, size: int, capacity: int) -> Law:
    law: Law = Counter()
    for (drawn,), probability in poisson_law(rate, size).items():
        kept = list(itertools.combinations(drawn, min(capacity, len(drawn))))
        for one in kept:
            law[(one,)] += probability / len(kept)
    return law


def uniform(draws: list[Draw]) -> Law:
    """Every entry of the list equally likely; equal entries add up."""
    law: Law = Counter()
    for draw in draws:
        law[draw] += Fraction(1, len(draws))
    return law


def shuffle_law(size: int, batch: int) -> Law:
    return uniform(
        [
            tuple(tuple(sorted(shuffled[i : i + batch])) for i in range(0, size, batch))
            for shuffled in itertools.permutations(range(size))
        ]
    )


def allocation_law(size: int, steps: int, chosen: int) -> Law:
    picks = list(itertools.combinations(range(steps), chosen))
    return uniform(
        [
            tuple(tuple(unit for unit in range(size) if step in picked[unit]) for step in range(steps))
            for picked in itertools.product(picks, repeat=size)
        ]
    )


def cyclic_law(size: int, parts: int, rate: Fraction) -> Law:
    """Units in their own steps, or nowhere."""
    law: Law = Counter()
    for places in itertools.product([None, *range(parts)], repeat=size):
        draw = tuple(tuple(unit for unit in range(size) if places[unit] == step) for step in range(parts))
        nowhere = places.count(None)
        law[draw] += (1 - rate) ** nowhere * (rate / parts) ** (size - nowhere)
    return law


def powerset(items: range) -> Iterator[tuple[int, ...]]:
    return itertools.chain.from_iterable(itertools.combinations(items, k) for k in range(len(items) + 1))


CASES = {
    "poisson": Case(PoissonSampler(0.3125), 4, poisson_law(Fraction(5, 16), 4), ONE, Poisson(0.3125, ONE)),
    "truncated": Case(
        TruncatedPoissonSampler(0.5, 2, 5),
        4,
        truncated_law(Fraction(1, 2), 4, 2),
        ONE,
        TruncatedPoisson(0.5, 2, 5, ONE),
    ),
    "fixed size": Case(
        FixedSizeSampler(5, 2),
        5,
        uniform([(c,) for c in itertools.combinations(range(5), 2)]),
        ONE,
        FixedSize(5, 2, ONE),
    ),
    "fixed size, most": Case(
        FixedSizeSampler(5, 4),
        5,
        uniform([(c,) for c in itertools.combinations(range(5), 4)]),
        ONE,
        FixedSize(5, 4, ONE),
    ),
    "shuffle": Case(ShuffleSampler(5, 2), 5, shuffle_law(5, 2), Repeat(ONE, 3), Epoch(Repeat(ONE, 3))),
    "allocation": Case(AllocationSampler(3), 4, allocation_law(4, 3, 1), Repeat(ONE, 3), Allocation(3, 1, ONE)),
    "allocation, two of four": Case(
        AllocationSampler(4, 2), 2, allocation_law(2, 4, 2), Repeat(ONE, 4), Allocation(4, 2, ONE)
    ),
    "cyclic": Case(
        CyclicPoissonSampler(3, 0.5), 3, cyclic_law(3, 3, Fraction(1, 2)), Repeat(ONE, 3), CyclicPoisson(3, 0.5, ONE)
    ),
    "individual": Case(
        IndividualSampler(3, 2), 3, {((0, 1, 2),) * 3: Fraction(1)}, Repeat(ONE, 3), Individual(3, 2, ONE)
    ),
    "everyone": Case(EveryoneSampler(), 3, {((0, 1, 2),): Fraction(1)}, ONE, ONE),
}


def draw_of(sampler: Sampler, first: int, size: int, stream: Stream) -> Draw:
    return tuple(tuple(batch.tolist()) for batch in sampler.batches(first, size, stream))


def p_value(sampler: Any, size: int, law: Law, seed: int) -> float:
    """Chi-square of many draws against the law; 0 if something impossible is drawn."""
    periods = math.ceil(60 / float(min(law.values())))
    stream = TestStream(seed)
    seen = Counter(draw_of(sampler, i * sampler.period, size, stream) for i in range(periods))
    if set(seen) - set(law):
        return 0.0
    expected = [periods * float(probability) for probability in law.values()]
    return float(stats.chisquare([seen[draw] for draw in law], expected).pvalue) if len(law) > 1 else 1.0
