"""Broken builds that draw otherwise than their plan says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from broken_builds import broken, patched

from discreet.core.array_types import IntArray
from discreet.sampling import (
    AllocationSampling,
    CyclicPoissonSampling,
    FixedSizeSampling,
    IndividualSampling,
    NoSampling,
    PoissonSampler,
    ShuffleSampling,
    TruncatedPoissonSampling,
)
from discreet.sampling import allocation as allocation_module
from discreet.sampling import cyclic_poisson as cyclic_module
from discreet.sampling.everyone import EveryoneSampler
from discreet.sampling.fixed_size import FixedSizeSampler
from discreet.sampling.shuffle import ShuffleSampler
from discreet.sampling.truncated_poisson import TruncatedPoissonSampler
from discreet.training.individual_filter import IndividualFilter

Draw = Callable[[Any, int, int, Callable[..., IntArray]], IntArray]


def poisson(draw: Draw) -> Any:
    """Poisson batches by `draw(sampler, step, size, the right draw)`, where some are drawn and some are not."""
    real = PoissonSampler.batches

    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        if self.rate < 1e-6 or self.rate == 1.0:
            return real(self, first, size, stream)
        return (draw(self, first, size, lambda sampler=self: real(sampler, first, size, stream)[0]),)

    return patched((PoissonSampler, "batches", batches))


@broken("fixed batches in turn, Poisson claimed", "draws")
def fixed_batches() -> Any:
    def draw(self: Any, step: int, size: int, right: Any) -> IntArray:
        parts = max(1, round(1 / self.rate))
        return np.arange(step % parts, size, parts)

    return poisson(draw)


@broken("shuffled epochs, Poisson claimed", "draws")
def shuffled_epochs() -> Any:
    orders: dict[tuple[int, int], IntArray] = {}

    def draw(self: Any, step: int, size: int, right: Any) -> IntArray:
        parts = max(1, round(1 / self.rate))
        order = orders.setdefault((step // parts, size), np.random.default_rng(step // parts).permutation(size))
        return np.sort(order[step % parts :: parts])

    return poisson(draw)


@broken("batches of fixed size, Poisson claimed", "draws")
def fixed_size() -> Any:
    generator = np.random.default_rng(0)

    def draw(self: Any, step: int, size: int, right: Any) -> IntArray:
        return np.sort(generator.choice(size, round(self.rate * size), replace=False))

    return poisson(draw)


@broken("the first epoch's draws again in every epoch", "draws")
def same_epoch_again() -> Any:
    seen: dict[Any, IntArray] = {}

    def draw(self: Any, step: int, size: int, right: Any) -> IntArray:
        key = step % round(2 / self.rate), size, self.rate
        if key not in seen:
            seen[key] = right()
        return seen[key]

    return poisson(draw)


@broken("the rate is 1.15 times what is declared", "draws")
def rate_higher() -> Any:
    return poisson(lambda self, step, size, right: right(PoissonSampler(min(1.0, 1.15 * self.rate))))


@broken("the rate is taken from the number of rows there are", "draws")
def rate_from_length() -> Any:
    return poisson(lambda self, step, size, right: right(PoissonSampler(min(1.0, 15 / size))))


@broken("an empty batch is drawn again until it is not empty", "replay/nearly empty")
def never_empty() -> Any:
    def draw(self: Any, step: int, size: int, right: Any) -> IntArray:
        found = right()
        return found if len(found) or not size else np.zeros(1, np.int64)

    return poisson(draw)


@broken("one unit is in every batch", "draws")
def one_unit_always() -> Any:
    return poisson(lambda self, step, size, right: np.union1d(right(), np.array([size // 2])))


@broken("units are drawn in pairs", "draws")
def drawn_in_pairs() -> Any:
    generator = np.random.default_rng(0)

    def draw(self: Any, step: int, size: int, right: Any) -> IntArray:
        chosen = np.unique(right() // 2)
        keep = chosen[generator.random(len(chosen)) < self.rate / (1 - (1 - self.rate) ** 2)]
        both = np.concatenate([2 * keep, 2 * keep + 1])
        return np.sort(both[both < size])

    return poisson(draw)


@broken(
    "a batch that is cut loses the last rows, and is not cut at the capacity",
    "draws",
    sampling=TruncatedPoissonSampling(rate=0.25, capacity=16),
)
def capacity_ignored() -> Any:
    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        return PoissonSampler(self.rate).batches(first, size, stream)

    return patched((TruncatedPoissonSampler, "batches", batches))


@broken(
    "batches of a fixed size are drawn with replacement",
    "draws",
    sampling=FixedSizeSampling(batch=12),
    adjacency="replace_one",
)
def drawn_with_replacement() -> Any:
    generator = np.random.default_rng(0)

    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        return (np.sort(generator.choice(size, self.batch)),)

    return patched((FixedSizeSampler, "batches", batches))


@broken(
    "epochs are shuffled once, and again in the same order",
    "draws",
    sampling=ShuffleSampling(batch=12),
    adjacency="replace_one",
)
def shuffled_once() -> Any:
    real, kept = ShuffleSampler.batches, {}

    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        return kept.setdefault((size, self.batch), real(self, first, size, stream))

    return patched((ShuffleSampler, "batches", batches))


@broken("units pick their steps of a period as a group", "draws", sampling=AllocationSampling(period=4))
def allocated_together() -> Any:
    real = allocation_module.AllocationSampler.batches

    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        found = real(self, first, -(-size // 2), stream)
        return tuple(np.sort(b[b < size]) for b in (np.concatenate([2 * one, 2 * one + 1]) for one in found))

    return patched((allocation_module.AllocationSampler, "batches", batches))


@broken("random allocation claimed, Poisson drawn", "draws", sampling=AllocationSampling(period=4))
def allocation_by_poisson() -> Any:
    generator = np.random.default_rng(0)

    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        return tuple(np.flatnonzero(generator.random(size) < 1 / self.steps) for _ in range(self.steps))

    return patched((allocation_module.AllocationSampler, "batches", batches))


@broken(
    "parts that take turns are dealt anew in every round",
    "draws",
    sampling=CyclicPoissonSampling(rate=0.5, coefficients=(3, 2)),
)
def parts_dealt_anew() -> Any:
    generator = np.random.default_rng(0)

    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        part = generator.integers(self._law.parts, size=size)
        drawn = generator.random(size) < self._law.rate
        return tuple(np.flatnonzero(drawn & (part == one)) for one in range(self._law.parts))

    return patched((cyclic_module.Dealt, "batches", batches))


@broken("every step draws all units but one", "draws", sampling=NoSampling())
def one_left_out() -> Any:
    real = EveryoneSampler.batches

    def batches(self: Any, first: int, size: int, stream: Any) -> tuple[IntArray, ...]:
        return (real(self, first, size, stream)[0][: max(0, size - (size > 10))],)

    return patched((EveryoneSampler, "batches", batches))


@broken(
    "budgets of units are looked at, and not kept",
    "replay/",
    engine="exact",
    sampling=IndividualSampling(period=6, full=2),
)
def budgets_not_kept() -> Any:
    real = IndividualFilter.admits

    def admits(self: Any, *given: Any) -> bool:
        real(self, *given)
        return True

    return patched((IndividualFilter, "admits", admits))
