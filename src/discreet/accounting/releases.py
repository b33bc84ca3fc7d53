"""From events to what accountants compute with: sampled Gaussians and sampled Laplace releases, with counts.

The adjacency is applied here, through `sensitivity_ratio`, and nowhere else in accounting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.accounting import classic, gdp, rdp
from discreet.accounting.pld.bounds import Release
from discreet.core.adjacency import Adjacency, Norm, sensitivity_ratio
from discreet.core.errors import NotProved
from discreet.core.events import Event, Gaussian, Laplace, Poisson, flatten, tally

_UP = 1 + 2.0**-50
_DOWN = 1 - 2.0**-50


@dataclass(frozen=True, slots=True)
class PureRelease:
    """`count` releases, each epsilon-differentially private by Laplace noise, Poisson-sampled with `rate`."""

    rate: float
    epsilon: float
    count: int


@dataclass(frozen=True, slots=True)
class Releases:
    """Everything that was released, by kind of noise; noise multipliers are relative to the adjacency."""

    gaussians: tuple[Release, ...]
    laplaces: tuple[PureRelease, ...]

    @property
    def sampled(self) -> bool:
        """Whether any release left units out at random."""
        return any(
            rate < 1 for rate in [*(part.rate for part in self.gaussians), *(part.rate for part in self.laplaces)]
        )

    def only_gaussian(self, theory: str) -> tuple[Release, ...]:
        """The Gaussians, if there is nothing else; `theory` and the part it declines are named otherwise."""
        if self.laplaces:
            raise NotProved(f"method {theory} does not account for Laplace; use method rdp, zcdp, basic or advanced")
        return self.gaussians

    def rdp_curve(self) -> rdp.Curve:
        """The Rényi curve of everything."""
        if any(part.rate < 1 for part in self.laplaces):
            raise NotProved("method rdp does not account for Laplace inside Poisson; use method basic or advanced")
        sampled = [part for part in self.gaussians if part.rate < 1]
        parts: list[tuple[rdp.Curve, int]] = [
            (partial(rdp.gaussian, part.noise), part.count) for part in self.gaussians if part.rate == 1
        ]
        if sampled:
            rates, noises, counts = np.array([[part.rate, part.noise, float(part.count)] for part in sampled]).T
            parts.append((partial(rdp.sampled_gaussians, rates, noises, counts), 1))
        return rdp.compose(parts + [(partial(rdp.laplace, part.epsilon), part.count) for part in self.laplaces])

    def pairs(self) -> Iterator[classic.Part]:
        """The same as maps from a delta to an epsilon, for the classic theorems."""
        for part in self.gaussians:
            yield classic.Part(part.rate, _gaussian_profile(part.noise), part.count)
        for pure in self.laplaces:
            yield classic.Part(pure.rate, _constant(pure.epsilon), pure.count)


def releases(event: Event, adjacency: Adjacency) -> Releases:
    """Interpret an event; what no theory of the library covers is `NotProved` and named."""
    gaussians: list[Release] = []
    laplaces: list[PureRelease] = []
    for part, count in tally(event).items():
        rate, inner = (part.rate, part.event) if isinstance(part, Poisson) else (1.0, part)
        if rate < 1 and adjacency is Adjacency.REPLACE_ONE:
            raise NotProved(
                "Poisson sampling under adjacency replace_one has no proved bound here; "
                "use adjacency add_remove or zero_out, or no sampling (rate 1)"
            )
        queries = list(_queries(inner))
        if queries and all(isinstance(query, Laplace) for query, _ in queries):
            laplaces.append(PureRelease(rate, _joint_epsilon(queries, adjacency), count))
        else:
            gaussians.append(Release(rate, _joint_noise(queries, adjacency), count))
    return Releases(tuple(gaussians), tuple(laplaces))


def _joint_noise(queries: list[tuple[Event, int]], adjacency: Adjacency) -> float:
    """All Gaussian queries on one draw are one: 1 / s_eff^2 = sum of (ratio / s)^2 over the queries."""
    if any(not isinstance(query, Gaussian) for query, _ in queries):
        raise NotProved("Gaussian and Laplace queries on one Poisson draw are not accounted for; draw twice")
    precision = math.fsum(
        count * (sensitivity_ratio(query.query, adjacency) / query.noise_multiplier) ** 2
        for query, count in queries
        if isinstance(query, Gaussian)
    )
    if not precision > 0:
        raise NotProved("a Poisson event around nothing, or with noise beyond all range, is not accounted for")
    return 1 / math.sqrt(precision) * _DOWN


def _joint_epsilon(queries: list[tuple[Event, int]], adjacency: Adjacency) -> float:
    """Laplace queries on one draw add up their epsilons; of a single one this is exact."""
    total = math.fsum(
        count * sensitivity_ratio(query.query, adjacency, Norm.L1) / query.scale_multiplier
        for query, count in queries
        if isinstance(query, Laplace)
    )
    return total * _UP


def _queries(event: Event) -> Iterator[tuple[Event, int]]:
    for part, count in flatten(event):
        if not isinstance(part, Gaussian | Laplace):
            raise NotProved(
                f"{type(part).__name__} inside Poisson is not accounted for; "
                "only Gaussian events, or only Laplace events, composed or repeated, can be sampled"
            )
        yield part, count


def _gaussian_profile(noise: float) -> Callable[[float], float]:
    return lambda delta: gdp.epsilon_bounds(1 / noise, delta)[1] if delta > 0 else math.inf


def _constant(epsilon: float) -> Callable[[float], float]:
    return lambda _delta: epsilon
