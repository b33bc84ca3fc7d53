"""From events to what accountants compute with: sampled Gaussians, sampled pure releases and searches, with counts.

The adjacency is applied here, through `sensitivity_ratio`, and nowhere else in accounting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from discreet.accounting import classic, gdp, pure, rdp, selection, zcdp
from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.bounds import Release
from discreet.core.adjacency import Adjacency, Norm, sensitivity_ratio
from discreet.core.arrays import Array
from discreet.core.errors import NotProved
from discreet.core.events import BoundedRange, Event, Gaussian, Laplace, NoisyMax, Poisson, Selection, flatten, tally
from discreet.core.trials import Trials

_UP = 1 + 2.0**-50
_DOWN = 1 - 2.0**-50


Pure = Laplace | NoisyMax | BoundedRange

_RDP_OF_PURE: dict[type[Pure], Callable[[float, Sequence[float]], Array]] = {
    Laplace: rdp.laplace,
    NoisyMax: pure.rdp_pure,
    BoundedRange: pure.rdp_bounded_range,
}


@dataclass(frozen=True, slots=True)
class PureRelease:
    """`count` epsilon-differentially private releases, Poisson-sampled with `rate`; `kind` says what more is known."""

    rate: float
    epsilon: float
    count: int
    kind: type[Pure] = Laplace

    @property
    def rho(self) -> float:
        """Zero-concentrated privacy of one of them, without sampling."""
        return zcdp.pure(self.epsilon) / (4 if self.kind is BoundedRange else 1)

    def loss(self) -> BoundedLoss:
        """For the privacy-loss distribution. A sampled release is pure too, at the amplified epsilon."""
        epsilon = classic.amplified(self.epsilon, 0.0, self.rate)[0]
        return BoundedLoss(epsilon, self.kind is BoundedRange and self.rate == 1, self.count)


@dataclass(frozen=True, slots=True)
class SelectionRelease:
    """`count` searches, each over K trials that release `trial`, on one Poisson draw with `rate` for all trials."""

    rate: float
    trial: Releases
    trials: Trials
    count: int


@dataclass(frozen=True, slots=True)
class Releases:
    """Everything that was released, by kind; noise multipliers and epsilons are relative to the adjacency."""

    gaussians: tuple[Release, ...]
    pures: tuple[PureRelease, ...] = ()
    selections: tuple[SelectionRelease, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether any release left units out at random."""
        rates = [part.rate for part in self.gaussians] + [part.rate for part in self.pures]
        return any(rate < 1 for rate in rates + [part.rate for part in self.selections])

    def only_gaussian(self, theory: str) -> tuple[Release, ...]:
        """The Gaussians, if there is nothing else; `theory` and the part it declines are named otherwise."""
        self.without_selection(theory)
        if self.pures:
            raise NotProved(
                f"method {theory} does not account for {self.pures[0].kind.__name__}; "
                "use method rdp, zcdp, basic or advanced"
            )
        return self.gaussians

    def without_selection(self, theory: str) -> None:
        """Refuse searches."""
        if self.selections:
            raise NotProved(
                f"method {theory} does not account for Selection here; use method rdp, basic or advanced "
                "(pld takes one search alone)"
            )

    def rdp_curve(self) -> rdp.Curve:
        """The Rényi curve of everything."""
        sampled = next((part for part in self.pures if part.rate < 1), None)
        if sampled or any(part.rate < 1 for part in self.selections):
            inner = sampled.kind.__name__ if sampled else "Selection"
            raise NotProved(f"method rdp does not account for {inner} inside Poisson; use method basic or advanced")
        parts: list[tuple[rdp.Curve, int]] = [
            (partial(rdp.sampled_gaussian, part.rate, part.noise), part.count) for part in self.gaussians
        ]
        parts += [(partial(_RDP_OF_PURE[part.kind], part.epsilon), part.count) for part in self.pures]
        for search in self.selections:
            parts.append((selection.rdp_curve(search.trial.rdp_curve(), search.trials), search.count))
        return rdp.compose(parts)

    def pairs(self) -> Iterator[classic.Part]:
        """The same as maps from a delta to an epsilon, for the classic theorems."""
        for part in self.gaussians:
            yield classic.Part(part.rate, _gaussian_profile(part.noise), part.count)
        for pure_part in self.pures:
            yield classic.Part(pure_part.rate, _constant(pure_part.epsilon), pure_part.count)
        for search in self.selections:
            trial = partial(classic.by_basic, list(search.trial.pairs()))
            yield classic.Part(search.rate, partial(selection.epsilon, trial, search.trials), search.count)


def releases(event: Event, adjacency: Adjacency) -> Releases:
    """Interpret an event; what no theory of the library covers is `NotProved` and named."""
    gaussians: list[Release] = []
    pures: list[PureRelease] = []
    selections: list[SelectionRelease] = []
    for part, count in tally(event).items():
        rate, inner = (part.rate, part.event) if isinstance(part, Poisson) else (1.0, part)
        if rate < 1 and adjacency is Adjacency.REPLACE_ONE:
            raise NotProved(
                "Poisson sampling under adjacency replace_one has no proved bound here; "
                "use adjacency add_remove or zero_out, or no sampling (rate 1)"
            )
        if isinstance(inner, Selection):
            trial = releases(inner.event, adjacency)
            selections.append(SelectionRelease(rate, trial, inner.trials, count))
            continue
        queries = list(_queries(inner))
        if queries and all(isinstance(query, Pure) for query, _ in queries):
            pures.append(PureRelease(rate, _joint_epsilon(queries, adjacency), count, _joint_kind(queries)))
        else:
            gaussians.append(Release(rate, _joint_noise(queries, adjacency), count))
    return Releases(tuple(gaussians), tuple(pures), tuple(selections))


def _joint_noise(queries: list[tuple[Event, int]], adjacency: Adjacency) -> float:
    """All Gaussian queries on one draw are one: 1 / s_eff^2 = sum of (ratio / s)^2 over the queries."""
    other = next((type(query).__name__ for query, _ in queries if not isinstance(query, Gaussian)), None)
    if other:
        raise NotProved(f"Gaussian and {other} queries on one Poisson draw are not accounted for; draw twice")
    precision = math.fsum(
        count * (sensitivity_ratio(query.query, adjacency) / query.noise_multiplier) ** 2
        for query, count in queries
        if isinstance(query, Gaussian)
    )
    if not precision > 0:
        raise NotProved("a Poisson event around nothing, or with noise beyond all range, is not accounted for")
    return 1 / math.sqrt(precision) * _DOWN


def _joint_epsilon(queries: list[tuple[Event, int]], adjacency: Adjacency) -> float:
    """Pure queries on one draw add up their epsilons; of a single one this is exact."""
    total = math.fsum(count * _pure_epsilon(query, adjacency) for query, count in queries if isinstance(query, Pure))
    return total * _UP


def _pure_epsilon(query: Pure, adjacency: Adjacency) -> float:
    if isinstance(query, Laplace):
        return sensitivity_ratio(query.query, adjacency, Norm.L1) / query.scale_multiplier
    return sensitivity_ratio(query.query, adjacency, Norm.L1) * query.epsilon


def _joint_kind(queries: list[tuple[Event, int]]) -> type[Pure]:
    """The kind that all have. Ranges add up, and so do epsilons; of different kinds only the latter is known."""
    kinds: set[type[Pure]] = {type(query) for query, _ in queries if isinstance(query, Pure)}
    return kinds.pop() if len(kinds) == 1 else NoisyMax


def _queries(event: Event) -> Iterator[tuple[Event, int]]:
    for part, count in flatten(event):
        if not isinstance(part, Gaussian | Pure):
            raise NotProved(
                f"{type(part).__name__} inside Poisson is not accounted for; "
                "only Gaussian events, or only pure ones (Laplace, NoisyMax, BoundedRange), composed or repeated, "
                "can be sampled"
            )
        yield part, count


def _gaussian_profile(noise: float) -> Callable[[float], float]:
    return lambda delta: gdp.epsilon_bounds(1 / noise, delta)[1] if delta > 0 else math.inf


def _constant(epsilon: float) -> Callable[[float], float]:
    return lambda _delta: epsilon
