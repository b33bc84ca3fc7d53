"""Drawn events of every kind, and what each theory takes of them."""

import math
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st

from discreet.accounting.account import Method
from discreet.core.adjacency import Adjacency, Query
from discreet.core.events import (
    Allocation,
    BoundedRange,
    Compose,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Individual,
    Laplace,
    NoisyMax,
    Poisson,
    Repeat,
    Selection,
    SparseHistogram,
    TruncatedPoisson,
)
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials

DELTA = 1e-5
GEOMETRIC = NegativeBinomialTrials(1.0, 0.1)
SLOW = settings(max_examples=12, deadline=None, derandomize=True)
FAST = settings(max_examples=100, deadline=None, derandomize=True)

noises = st.floats(math.log(0.5), math.log(20)).map(math.exp)
rates = st.floats(math.log(1e-3), 0).map(math.exp)
gaussians = st.builds(Gaussian, noises, st.sampled_from(Query))
individuals = st.integers(1, 30).flatmap(
    lambda full: st.builds(Individual, st.integers(full, 40), st.just(full), st.builds(Gaussian, noises))
)
sparse = st.builds(lambda noise, far: SparseHistogram(noise, 1 + noise * far), noises, st.floats(6.5, 9))
inner = st.one_of(gaussians, st.lists(gaussians, min_size=1, max_size=3).map(lambda e: Compose(tuple(e))))
laplaces = st.builds(Laplace, noises, st.sampled_from(Query))

epsilons = noises.map(lambda noise: 1 / noise)
choices = st.one_of(*(st.builds(kind, epsilons, st.sampled_from(Query)) for kind in (BoundedRange, NoisyMax)))
trials = st.one_of(
    st.builds(NegativeBinomialTrials, st.floats(-0.5, 2), st.floats(0.01, 0.5)),
    st.builds(PoissonTrials, st.floats(0.5, 20)),
)

SIZE_PRIVATE = {Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT}
ALL = set(Adjacency)
# Under which adjacencies each sampler has a theorem, and whether its rate amplifies. All samplers must be here.
SAMPLERS: dict[type, tuple[set[Adjacency], bool]] = {
    Poisson: (SIZE_PRIVATE, True),
    TruncatedPoisson: (SIZE_PRIVATE, True),
    FixedSize: ({Adjacency.REPLACE_ONE}, True),
    Epoch: ({Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE}, False),
    Allocation: (ALL, False),
    CyclicPoisson: (SIZE_PRIVATE, True),
}


def draw(sampler: type, rate: float, event: Event) -> Event:
    """A draw by `sampler` of about this rate, rounded down to a whole share where it must be; unsampled for rate 1."""
    whole = max(1, math.ceil(1 / rate))
    if sampler is TruncatedPoisson:
        return TruncatedPoisson(rate, 990, 1000, event)
    if sampler is CyclicPoisson:
        return CyclicPoisson(3, rate, event)
    if sampler is FixedSize:
        return FixedSize(whole, 1, event)
    if sampler is Epoch:
        return Epoch(Repeat(event, whole))
    if sampler is Allocation:
        return Allocation(min(whole, 100), 1, event)  # the exact law of longer periods takes seconds
    return Poisson(rate, event)


NONE: set[type] = set()
PLAIN = {sampler for sampler, (_, amplifies) in SAMPLERS.items() if not amplifies}
POISSON: set[type] = PLAIN | {Poisson, TruncatedPoisson, CyclicPoisson}
EVERY = set(SAMPLERS)


class Takes(NamedTuple):
    """Around what a theory takes each kind of event, None where it takes none, not even unsampled."""

    gaussian: set[type]
    laplace: set[type] | None
    choice: set[type] | None
    search: set[type] | None


# A theory that is registered must be here. (Searches by pld must be alone: see below.)
THEORIES: dict[Method, Takes] = {
    Method.PLD: Takes(EVERY, None, POISSON, None),
    Method.RDP: Takes(EVERY, PLAIN, PLAIN, NONE),
    Method.GDP: Takes(PLAIN, None, None, None),
    Method.ZCDP: Takes(PLAIN, PLAIN, PLAIN, None),
    Method.ADVANCED: Takes(EVERY, EVERY, EVERY, {Poisson}),
    Method.BASIC: Takes(EVERY, EVERY, EVERY, {Poisson}),
}


def searches(adjacency: Adjacency) -> st.SearchStrategy[Event]:
    """Over what Rényi bounds and the classic theorems have; truncated batches are refused in trials."""
    samplers = [
        sampler for sampler in SAMPLERS if sampler is not TruncatedPoisson and adjacency in SAMPLERS[sampler][0]
    ]
    trial = st.one_of(inner, choices, *(st.builds(draw, st.just(sampler), rates, inner) for sampler in samplers))
    return st.builds(Selection, trial, trials)


def leaves(method: Method, adjacency: Adjacency) -> st.SearchStrategy[Event]:
    """Whatever the theory takes under the adjacency: none of it may be refused."""
    kinds = dict(zip(Takes._fields, (inner, laplaces, choices, searches(adjacency)), strict=True))
    found: list[st.SearchStrategy[Event]] = []
    for kind, around in THEORIES[method]._asdict().items():
        if around is not None:
            found.extend([gaussians, individuals, sparse] if kind == "gaussian" else [kinds[kind]])
            for sampler in SAMPLERS:  # in a fixed order, unlike the set
                if sampler in around and adjacency in SAMPLERS[sampler][0]:
                    found.append(st.builds(draw, st.just(sampler), rates, kinds[kind]))
    return st.one_of(found)


def nested(parts: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    return st.recursive(
        parts,
        lambda child: st.one_of(
            st.builds(Repeat, child, st.integers(1, 6)),
            st.lists(child, max_size=3).map(lambda parts: Compose(tuple(parts))),
        ),
        max_leaves=4,
    )


events = st.sampled_from(Adjacency).flatmap(lambda adjacency: nested(leaves(Method.BASIC, adjacency)))
adjacencies = st.sampled_from(Adjacency)
