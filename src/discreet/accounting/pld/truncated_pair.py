"""The pair that dominates a step on a Poisson batch of which at most `capacity` units stay, chosen at random.

Let N be how many of the *other* units were drawn, N <= Bin(population - 1, q). N may be revealed.

- N < capacity: nobody is left out. The unit takes part with chance q and adds its contribution: the pair of a
  Poisson step.
- N >= capacity: whether the unit was drawn or not, the batch has `capacity` units. Draw T of capacity - 1 others at
  random, and one more of them, y. Without the unit the batch is T and y. With it, T and y with chance 1 - p, else T and
  the unit, p = q capacity / (N + 1). Given T and y the pair is (1 - p) N(y) + p N(x) against N(y): that of a Poisson
  step at the rate p < q, for a unit that *replaces* another, so at the replace-one sensitivity.

A mixture whose branch is known has as its profile the mean of both (joint convexity). The second branch at the rate q
dominates the first, since less noise does, so the pair only grows with the chance of the second: that for the largest
population, P(Bin(population - 1, q) >= capacity), covers all smaller ones. (Ganesh 2025, "Tighter privacy analysis for
truncated Poisson sampling", arXiv 2508.15089, has p averaged over N instead.) Steps that adapt to what was released
compose as those of Poisson batches do: given the past each is dominated by this pair.

Under zero-out a record without contributions takes part in the draw. While N < capacity nothing changes. Beyond, the
pair is (1 - p) N(y) + p N(x) against (1 - p) N(y) + p N(0). By advanced joint convexity (Balle, Barthe, Gaboardi 2018,
Theorem 2) its profile above epsilon 0 is at most p times that of two shifts, both at most the replace-one
sensitivity: so it is at most the profile of a step on a batch of fixed size, in both directions (`either`;
`fixed_size_pair`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet.accounting.pld.fixed_size_pair import SymmetricPair
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Bins, Direction, Pair
from discreet.core.array_types import Array


@dataclass(frozen=True, slots=True)
class TruncatedPair(Pair):
    """`Pair` with probability 1 - `share`, else that of a unit which replaces another, at the noise `replaced`.

    `share` bounds the chance that others fill the batch. `either`: under zero-out.
    """

    replaced: float | Array
    share: float | Array
    either: bool
    NUMBERS: ClassVar[tuple[str, ...]] = ("rate", "noise", "replaced", "share")

    def ends(self, tail: float) -> Array:
        """The losses of both at the ends of their outcomes."""
        return np.concatenate([part.loss(part.support(tail)) for part in self._both()], axis=-1)

    def loss_rounding(self, largest: float) -> Array:
        """The larger of both."""
        return np.maximum(*(part.loss_rounding(largest) for part in self._both()))

    def bins(self, edges: Array) -> Bins:
        """Masses of both distributions between consecutive loss `edges`, as `Pair.bins`."""
        own, other = (part.bins(edges) for part in self._both())
        share = np.asarray(self.share)
        flat = share[..., 0] if share.ndim else share
        p, q = ((1 - share) * one + share * two for one, two in ((own.p, other.p), (own.q, other.q)))
        p_error = (1 - share) * own.p_error + share * other.p_error + 8 * UNIT_ROUNDOFF * p
        q_error = (1 - share) * own.q_error + share * other.q_error + 8 * UNIT_ROUNDOFF * q
        outside = (((1 - flat) * one + flat * two) * (1 + 8 * UNIT_ROUNDOFF) for one, two in _outside(own, other))
        return Bins(p, q, p_error, q_error, *outside)

    def quadrature(self, tail: float) -> tuple[Array, Array]:
        """Losses and log-masses of one release, as `Pair.quadrature`."""
        (loss, log_mass), (more, log_more) = (part.quadrature(tail) for part in self._both())
        with np.errstate(divide="ignore"):
            log_shares = np.log1p(-float(self.share)), np.log(float(self.share))
        return np.concatenate((loss, more)), np.concatenate((log_mass + log_shares[0], log_more + log_shares[1]))

    def _both(self) -> tuple[Pair, Pair]:
        direction = Direction.REMOVAL if self.either else self.direction
        other = SymmetricPair if self.either else Pair
        return Pair(self.rate, self.noise, self.direction), other(self.rate, self.replaced, direction)


def _outside(own: Bins, other: Bins) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    return (own.below, other.below), (own.above, other.above)
