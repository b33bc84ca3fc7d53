"""The odometer of zCDP: a mixture over all orders at once, for releases without sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scipy.special import log_ndtr

from discreet.accounting.adaptive import costs
from discreet.accounting.adaptive.codec import check_common
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.odometer_base import FULL, OUTWARD, QUANTUM, least
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.events import Event


@dataclass(frozen=True, slots=True)
class ZcdpOdometer:
    """The mixture over all lambda = alpha - 1 > 0 with a half-normal weight, for sums of rho.

    zCDP gives E[exp(lambda loss)] <= exp(lambda (lambda + 1) rho), so exp(lambda M - lambda^2 V / 2) is a
    supermartingale, with M = L - rho and V = 2 rho the sums. Weighted by 2 x the density of N(0, 1 / `scale`), it
    integrates to 2 sqrt(k / (V + k)) exp(M^2 / (2 (V + k))) Phi(M / sqrt(V + k)), k = scale (Robbins 1970).
    """

    delta: float
    scale: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.positive("scale", self.scale))
        check_common(self)

    @classmethod
    def tuned(
        cls, delta: float, rho: float, adjacency: Adjacency = Adjacency.ADD_REMOVE, unit: Unit = Unit.EXAMPLE
    ) -> ZcdpOdometer:
        """The odometer with the lowest reading once `rho`, a public guess made beforehand, is spent."""
        rho = checks.positive("rho", rho)
        spent = (min(rho, 0.5 * FULL),)
        scales = [2 * spent[0] * 2.0 ** (k / 4) for k in range(-60, 40)]
        return min((cls(delta, scale, adjacency, unit) for scale in scales), key=lambda each: each.reading(spent))

    def cost(self, event: Event) -> Amounts:
        """rho of an event; `NotProved` with sampling."""
        return costs.rho(event, self.adjacency, QUANTUM)

    def reading(self, spent: Amounts) -> float:
        """The bound on the loss."""
        (rho,) = spent
        if not rho < FULL:
            return math.inf
        width = math.sqrt(2 * rho + self.scale)
        goal = -math.log(self.delta) - math.log(2) + math.log(width / math.sqrt(self.scale))

        def reached(loss: float) -> bool:
            share = (loss - rho) / width
            return 0.5 * share**2 + float(log_ndtr(share)) >= goal + 1e-12 * (1 + abs(goal))

        # log Phi >= -log 2 where the loss is above rho, so the mixture is at its goal here at the latest
        return least(reached, rho + width * math.sqrt(2 * max(0.0, goal + math.log(2))) * OUTWARD + 1e-9, rho)
