"""The input of accountants: Gaussian releases, pure releases and searches, with their sampling rates and counts.

`interpret` makes them from events, applying the adjacency and the theorems on samplers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from discreet.accounting.pld.bounded import BoundedLoss
from discreet.accounting.pld.epsilon_interval import Periods, Release
from discreet.accounting.pld.replacement_interval import Filled
from discreet.accounting.theories import basic_and_advanced, gdp, pure, rdp, selection, without_replacement, zcdp
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.errors import NotProved
from discreet.core.events import BoundedRange, Laplace, NoisyMax
from discreet.core.trials import Trials

Pure = Laplace | NoisyMax | BoundedRange

_RDP_OF_PURE: dict[type[Pure], Callable[[float, Sequence[float]], Array]] = {
    Laplace: rdp.laplace,
    NoisyMax: pure.rdp_pure,
    BoundedRange: pure.rdp_bounded_range,
}


@dataclass(frozen=True, slots=True)
class PureRelease:
    """`count` epsilon-differentially private releases, sampled with `rate`; `kind` says which bounds hold.

    The kind is that of the mechanism, or of the parts of a mixture: a mixture over partitions, say, obeys every bound
    on the profile, on Rényi divergences and on rho that all its parts obey.
    """

    rate: float
    epsilon: float
    count: int
    kind: type[Pure] = Laplace

    @property
    def rho(self) -> float:
        """The zCDP rho of one release, without sampling."""
        return zcdp.bounded_range(self.epsilon) if self.kind is BoundedRange else zcdp.pure(self.epsilon)

    def loss(self) -> BoundedLoss:
        """The privacy-loss bound; a sampled release counts as a pure one at the amplified epsilon."""
        epsilon = basic_and_advanced.amplified(self.epsilon, 0.0, self.rate)[0]
        return BoundedLoss(epsilon, self.kind is BoundedRange and self.rate == 1, self.count)


@dataclass(frozen=True, slots=True)
class SelectionRelease:
    """`count` searches of K trials that release `trial`; all trials of a search share a Poisson draw with `rate`."""

    rate: float
    trial: Releases
    trials: Trials
    count: int


@dataclass(frozen=True, slots=True)
class Dominated:
    """Epochs, periods or rounds that reveal no more than `release`; `lower` maps a delta to a lower bound on epsilon.

    `periods`, if known, reveal no less either, and cost less; `attained`: they reveal exactly that.
    """

    release: Release
    lower: Callable[[float], float]
    periods: Periods | None = None
    attained: bool = False


@dataclass(slots=True)
class Releases:
    """Everything that was released, by kind; noise multipliers and epsilons are relative to the adjacency.

    A `rate` below 1 means batches of fixed size under replace_one, Poisson batches under the other adjacencies.
    `filled` says what releases on truncated batches cost, which are in `attained` as if nobody were left out.
    `overflow` bounds the probability that any batch was truncated, `escapes` the probability that a value which only
    one neighbour has was released (`theories.sparse`). Sparse histograms count among the Gaussians. `samplers` holds
    the class names of the outermost events.
    """

    adjacency: Adjacency
    attained: list[Release] = field(default_factory=list)
    dominated: list[Dominated] = field(default_factory=list)
    pures: list[PureRelease] = field(default_factory=list)
    selections: list[SelectionRelease] = field(default_factory=list)
    filled: list[Filled] = field(default_factory=list)
    overflow: float = 0.0
    escapes: float = 0.0
    samplers: set[str] = field(default_factory=set)

    @property
    def gaussians(self) -> list[Release]:
        """All Gaussian releases; for a dominated one, the release that dominates it."""
        return [*self.attained, *(part.release for part in self.dominated)]

    @property
    def unamplified(self) -> list[Release]:
        """All Gaussian releases but those of `periods`."""
        return [*self.attained, *(part.release for part in self.dominated if part.periods is None)]

    @property
    def never_truncated(self) -> list[Release]:
        """All Gaussian releases but those of `filled`."""
        rest = self.gaussians
        for one in self.filled:
            rest.remove(one.release)
        return rest

    @property
    def filled_tells_all(self) -> bool:
        """Whether all releases are Gaussians on truncated batches, or beside them (`filled`, `never_truncated`).

        Steps of fixed size are not: their symmetrised curve alone is proved.
        """
        others = self.pures or self.selections or self.periods or (self.fixed_size and self.sampled)
        return not others

    @property
    def periods(self) -> list[Periods]:
        """Periods of random allocation whose privacy loss is known."""
        return [part.periods for part in self.dominated if part.periods is not None]

    @property
    def is_attained(self) -> bool:
        """Whether some two data sets reveal all that `unamplified` and `periods` do, so that lower bounds hold."""
        return not self.worst_apart and all(part.attained for part in self.dominated)

    @property
    def worst_apart(self) -> bool:
        """Whether no data set may be the worst for all releases: what they reveal together is an upper bound alone.

        Truncated batches leave nobody out where there are few units; a sparse histogram shows a value where more rows
        than its threshold have it; batches of fixed size and disjoint batches are of one number of units, which may
        be too many or too few.
        """
        wants_few, wants_many = self.overflow > 0, self.escapes > 0
        fixed = not self.samplers.isdisjoint({"FixedSize", "Epoch"})
        return (wants_few and wants_many) or ((wants_few or wants_many) and fixed)

    @property
    def sampled(self) -> bool:
        """Whether any release has a rate below 1, so that sampling amplifies its privacy."""
        rates = [part.rate for part in self.gaussians] + [part.rate for part in self.pures]
        return any(rate < 1 for rate in rates + [part.rate for part in self.selections])

    @property
    def fixed_size(self) -> bool:
        """Whether sampled releases are on batches of fixed size."""
        return self.adjacency is Adjacency.REPLACE_ONE

    def only_gaussian(self, theory: str) -> list[Release]:
        """The Gaussians, if there is nothing else; else `NotProved` names `theory` and the part that it refuses."""
        self.without_selection(theory)
        if self.pures:
            raise NotProved(
                f"method {theory} does not account for {self.pures[0].kind.__name__}; "
                "use method rdp, zcdp, basic or advanced"
            )
        return self.gaussians

    def without_selection(self, theory: str) -> None:
        """Raise `NotProved` if there are searches."""
        if self.selections:
            raise NotProved(
                f"method {theory} does not account for Selection here; use method rdp, basic or advanced "
                "(pld takes one search alone)"
            )

    def bounded_losses(self) -> list[BoundedLoss]:
        """The pure releases for the privacy-loss distribution; `NotProved` names a release that it does not cover."""
        self.without_selection("pld")
        if any(part.kind is Laplace for part in self.pures):
            raise NotProved("method pld does not account for Laplace; use method rdp, zcdp, basic or advanced")
        sampled = next((part for part in self.pures if part.rate < 1), None)
        if sampled and self.fixed_size:
            raise NotProved(
                f"method pld does not account for {sampled.kind.__name__} inside FixedSize; "
                "use method basic or advanced"
            )
        return [part.loss() for part in self.pures]

    def rdp_curve(self, as_stated: bool = False) -> rdp.Curve:
        """The Rényi curve of all releases; `as_stated`: by the theorems as papers evaluate them."""
        sampled = next((part for part in self.pures if part.rate < 1), None)
        if sampled or any(part.rate < 1 for part in self.selections):
            inner = f"{sampled.kind.__name__} inside Poisson or FixedSize" if sampled else "Selection inside Poisson"
            raise NotProved(f"method rdp does not account for {inner}; use method basic or advanced")
        poisson = [part for part in self.gaussians if part.rate < 1 and not self.fixed_size]
        parts: list[tuple[rdp.Curve, int]] = [
            (self._curve(part, as_stated), part.count) for part in self.gaussians if part.rate == 1 or self.fixed_size
        ]
        if poisson:
            rates, noises, counts = np.array([[part.rate, part.noise, float(part.count)] for part in poisson]).T
            parts.append((partial(rdp.sampled_gaussians, rates, noises, counts), 1))
        parts += [(partial(_RDP_OF_PURE[part.kind], part.epsilon), part.count) for part in self.pures]
        for search in self.selections:
            parts.append((selection.rdp_curve(search.trial.rdp_curve(as_stated), search.trials), search.count))
        return rdp.compose(parts)

    def pairs(self) -> Iterator[basic_and_advanced.Part]:
        """All releases as maps from a delta to an epsilon, for basic and advanced composition."""
        for part in self.gaussians:
            yield basic_and_advanced.Part(part.rate, _gaussian_profile(part.noise), part.count)
        for pure_part in self.pures:
            yield basic_and_advanced.Part(pure_part.rate, constant(pure_part.epsilon), pure_part.count)
        for search in self.selections:
            trial = partial(basic_and_advanced.by_basic, list(search.trial.pairs()))
            yield basic_and_advanced.Part(search.rate, partial(selection.epsilon, trial, search.trials), search.count)

    def _curve(self, part: Release, as_stated: bool) -> rdp.Curve:
        """The Rényi curve of one release, unsampled or on a batch of fixed size."""
        if part.rate < 1:
            return partial(without_replacement.rdp, part.rate, part.noise, as_stated=as_stated)
        return partial(rdp.gaussian, part.noise)


def _gaussian_profile(noise: float) -> Callable[[float], float]:
    return lambda delta: gdp.epsilon_bounds(1 / noise, delta)[1] if delta > 0 else math.inf


def constant(value: float) -> Callable[[float], float]:
    """The profile of a release that costs `value` at every delta."""
    return lambda _delta: value
