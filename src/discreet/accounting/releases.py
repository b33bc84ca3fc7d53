"""From events to what accountants compute with: Gaussian and Laplace releases, with their sampling and counts.

The adjacency is applied here, through `sensitivity_ratio`, and nowhere else in accounting. So are the theorems on
samplers, but for those on how sampled releases compose:

| event            | here                                                                | adjacency             |
|------------------|---------------------------------------------------------------------|-----------------------|
| Poisson          | a sampled release                                                   | add_remove, zero_out  |
| TruncatedPoisson | the same, and an overflow that delta pays for (`truncation`)        | add_remove, zero_out  |
| FixedSize        | a sampled release, composed by its symmetrised curve                | replace_one           |
| Epoch            | at most its dearest batch, unsampled; a lower bound (`shuffled`)    | zero_out, replace_one |
| Allocation       | at most `chosen` unsampled releases; a lower bound (`shuffled`)     | all                   |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from discreet.accounting import classic, gdp, rdp, shuffled, truncation, without_replacement
from discreet.accounting.pld.bounds import Release
from discreet.core.adjacency import Adjacency, Norm, Query, sensitivity_ratio
from discreet.core.errors import NotProved
from discreet.core.events import (
    Allocation,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    TruncatedPoisson,
    batches,
    flatten,
    tally,
)

_UP = 1 + 2.0**-50
_DOWN = 1 - 2.0**-50


@dataclass(frozen=True, slots=True)
class PureRelease:
    """`count` releases, each epsilon-differentially private by Laplace noise, sampled with `rate`."""

    rate: float
    epsilon: float
    count: int


@dataclass(frozen=True, slots=True)
class Dominated:
    """Epochs or periods that are at most as revealing as `release`; `lower` maps a delta to a bound from below."""

    release: Release
    lower: Callable[[float], float]


@dataclass(slots=True)
class Releases:
    """Everything that was released, by kind of noise; noise multipliers are relative to the adjacency.

    A `rate` below 1 means batches of fixed size under replace_one, Poisson batches under the other adjacencies.
    `overflow` bounds the probability that any truncated batch was truncated. `samplers` are the names of the events.
    """

    adjacency: Adjacency
    attained: list[Release] = field(default_factory=list)
    dominated: list[Dominated] = field(default_factory=list)
    laplaces: list[PureRelease] = field(default_factory=list)
    overflow: float = 0.0
    samplers: set[str] = field(default_factory=set)

    @property
    def gaussians(self) -> list[Release]:
        """All Gaussian releases, dominated ones as what dominates them."""
        return [*self.attained, *(part.release for part in self.dominated)]

    @property
    def sampled(self) -> bool:
        """Whether any release left units out at random in a way that amplifies."""
        return any(part.rate < 1 for part in self.attained) or any(part.rate < 1 for part in self.laplaces)

    @property
    def fixed_size(self) -> bool:
        """Whether sampled releases are on batches of fixed size."""
        return self.adjacency is Adjacency.REPLACE_ONE

    def only_gaussian(self, theory: str) -> list[Release]:
        """The Gaussians, if there is nothing else; `theory` and the part it declines are named otherwise."""
        if self.laplaces:
            raise NotProved(f"method {theory} does not account for Laplace; use method rdp, zcdp, basic or advanced")
        return self.gaussians

    def rdp_curve(self, as_stated: bool = False) -> rdp.Curve:
        """The Rényi curve of everything; `as_stated`: by theorems as papers evaluate them."""
        if any(part.rate < 1 for part in self.laplaces):
            raise NotProved(
                "method rdp does not account for Laplace inside Poisson or FixedSize; use method basic or advanced"
            )
        poisson = [part for part in self.gaussians if part.rate < 1 and not self.fixed_size]
        parts: list[tuple[rdp.Curve, int]] = [
            (self._curve(part, as_stated), part.count) for part in self.gaussians if part.rate == 1 or self.fixed_size
        ]
        if poisson:
            rates, noises, counts = np.array([[part.rate, part.noise, float(part.count)] for part in poisson]).T
            parts.append((partial(rdp.sampled_gaussians, rates, noises, counts), 1))
        return rdp.compose(parts + [(partial(rdp.laplace, part.epsilon), part.count) for part in self.laplaces])

    def pairs(self) -> Iterator[classic.Part]:
        """The same as maps from a delta to an epsilon, for the classic theorems."""
        for part in self.gaussians:
            yield classic.Part(part.rate, _gaussian_profile(part.noise), part.count)
        for pure in self.laplaces:
            yield classic.Part(pure.rate, _constant(pure.epsilon), pure.count)

    def _curve(self, part: Release, as_stated: bool) -> rdp.Curve:
        """That of one release, without sampling or on a batch of fixed size."""
        if part.rate < 1:
            return partial(without_replacement.rdp, part.rate, part.noise, as_stated=as_stated)
        return partial(rdp.gaussian, part.noise)


def releases(event: Event, adjacency: Adjacency) -> Releases:
    """Interpret an event; what no theory of the library covers is `NotProved` and named."""
    found = Releases(adjacency)
    for part, count in tally(event).items():
        found.samplers.add(type(part).__name__)
        match part:
            case Poisson(rate, inner):
                _add_poisson(found, part, rate, inner, count)
            case TruncatedPoisson(rate, capacity, population, inner):
                _add_poisson(found, part, rate, inner, count)
                found.overflow += count * truncation.overflow(rate, capacity, population) * _UP
            case FixedSize():
                _add_fixed_size(found, part, count)
            case Epoch():
                _add_epoch(found, part, count)
            case Allocation():
                _add_allocation(found, part, count)
            case _:
                _add(found, part, 1.0, part, count)
    return found


def _add(found: Releases, draw: Event, rate: float, inner: Event, count: int) -> None:
    """`count` releases of the queries `inner` on draws of which each is `draw`."""
    queries = _queries(draw, inner)
    if _all_laplace(queries):
        found.laplaces.append(PureRelease(rate, _joint_epsilon(queries, found.adjacency), count))
    else:
        found.attained.append(Release(rate, _joint_noise(draw, queries, found.adjacency), count))


def _add_poisson(found: Releases, draw: Event, rate: float, inner: Event, count: int) -> None:
    if rate < 1 and found.adjacency is Adjacency.REPLACE_ONE:
        raise NotProved(
            "Poisson sampling under adjacency replace_one has no proved bound here; "
            "use adjacency add_remove or zero_out, or batches of fixed size, or no sampling (rate 1)"
        )
    _add(found, draw, rate, inner, count)


def _add_fixed_size(found: Releases, draw: FixedSize, count: int) -> None:
    if found.adjacency is Adjacency.ADD_REMOVE:
        raise NotProved(
            "batches of fixed size need a public population, which adding or removing a unit changes; "
            "use adjacency replace_one, or Poisson sampling"
        )
    if found.adjacency is Adjacency.ZERO_OUT and draw.batch < draw.population:
        raise NotProved(
            "batches of fixed size have no theorem of their own under adjacency zero_out; "
            "use adjacency replace_one, whose guarantee covers zero_out, or Poisson sampling"
        )
    # Rounded up: a larger rate costs more (a batch with less chance of the unit is a post-processing).
    rate = min(1.0, draw.batch / draw.population * _UP) if draw.batch < draw.population else 1.0
    _add(found, draw, rate, draw.event, count)


def _add_epoch(found: Releases, epoch: Epoch, count: int) -> None:
    """An epoch is at most its dearest batch, seen by everyone, since a unit is in one batch.

    Given the partition, all other batches are post-processing of the one that holds the unit (Yu et al. 2019,
    Theorem 2); a mixture over partitions is at most as revealing as the partition together with the release.
    """
    if found.adjacency is Adjacency.ADD_REMOVE:
        raise NotProved(
            "disjoint batches shift when a unit is added or removed, so nothing is proved under add_remove; "
            "use adjacency zero_out or replace_one, or Poisson or allocation sampling"
        )
    parts = [(_queries(epoch, batch), times) for batch, times in batches(epoch)]
    if parts and all(_all_laplace(queries) for queries, _ in parts):
        worst = max(_joint_epsilon(queries, found.adjacency) for queries, _ in parts)
        found.laplaces.append(PureRelease(1.0, worst, count))
        return
    if not parts or any(_all_laplace(queries) for queries, _ in parts):
        raise NotProved("an Epoch around nothing, or with Gaussian and Laplace batches, is not accounted for")
    noise = min(_joint_noise(epoch, queries, found.adjacency) for queries, _ in parts)
    release = Release(1.0, noise, count)
    if sum(times for _, times in parts) == 1:
        found.attained.append(release)
        return
    signed = [([query for query in queries if _is_signed(query[0])], times) for queries, times in parts]
    if all(queries for queries, _ in signed):
        own = [(_joint_noise(epoch, queries, Adjacency.ZERO_OUT) / _DOWN**2, times) for queries, times in signed]
        found.dominated.append(Dominated(release, partial(shuffled.epoch_lower, _merged(own), count)))
    else:
        found.dominated.append(Dominated(release, _constant(0.0)))


def _add_allocation(found: Releases, draw: Allocation, count: int) -> None:
    """Given the steps that a unit is in, it costs as many unsampled releases; a mixture over them is no worse."""
    queries = _queries(draw, draw.event)
    if _all_laplace(queries):
        found.laplaces.append(PureRelease(1.0, _joint_epsilon(queries, found.adjacency), count * draw.chosen))
        return
    release = Release(1.0, _joint_noise(draw, queries, found.adjacency), count * draw.chosen)
    if draw.chosen == draw.steps:
        found.attained.append(release)
        return
    own = _joint_noise(draw, queries, Adjacency.ZERO_OUT) / _DOWN**2
    found.dominated.append(Dominated(release, partial(shuffled.allocation_lower, own, draw.steps, draw.chosen, count)))


def _is_signed(query: Event) -> bool:
    """Whether contributions may be each other's opposite, as the lower bound for epochs supposes."""
    return isinstance(query, Gaussian) and query.query in (Query.CLIPPED_SUM, Query.CENTRED_BIT)


def _merged(parts: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    totals: dict[float, int] = {}
    for noise, times in parts:
        totals[noise] = totals.get(noise, 0) + times
    return list(totals.items())


Queries = list[tuple[Event, int]]


def _all_laplace(queries: Queries) -> bool:
    return bool(queries) and all(isinstance(query, Laplace) for query, _ in queries)


def _joint_noise(draw: Event, queries: Queries, adjacency: Adjacency) -> float:
    """All Gaussian queries on one draw are one: 1 / s_eff^2 = sum of (ratio / s)^2 over the queries."""
    name = type(draw).__name__
    if any(not isinstance(query, Gaussian) for query, _ in queries):
        raise NotProved(f"Gaussian and Laplace queries on one {name} draw are not accounted for; draw twice")
    squares = [
        ((sensitivity_ratio(query.query, adjacency) / query.noise_multiplier) ** 2, count)
        for query, count in queries
        if isinstance(query, Gaussian)
    ]
    if not any(square > 0 for square, _ in squares):
        raise NotProved(f"a {name} event around nothing, or with noise beyond all range, is not accounted for")
    # What underflowed is at most the smallest positive number, which may be counted often.
    return 1 / math.sqrt(math.fsum(count * (square + 2.0**-1074) for square, count in squares)) * _DOWN


def _joint_epsilon(queries: Queries, adjacency: Adjacency) -> float:
    """Laplace queries on one draw add up their epsilons; of a single one this is exact."""
    total = math.fsum(
        count * sensitivity_ratio(query.query, adjacency, Norm.L1) / query.scale_multiplier
        for query, count in queries
        if isinstance(query, Laplace)
    )
    return total * _UP


def _queries(draw: Event, inner: Event) -> Queries:
    found = list(flatten(inner))
    for part, _ in found:
        if not isinstance(part, Gaussian | Laplace):
            raise NotProved(
                f"{type(part).__name__} inside {type(draw).__name__} is not accounted for; "
                "only Gaussian events, or only Laplace events, composed or repeated, can be sampled"
            )
    return found


def _gaussian_profile(noise: float) -> Callable[[float], float]:
    return lambda delta: gdp.epsilon_bounds(1 / noise, delta)[1] if delta > 0 else math.inf


def _constant(value: float) -> Callable[[float], float]:
    return lambda _delta: value
