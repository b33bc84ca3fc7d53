"""The odometer of Gaussian releases without sampling: a line that Brownian motion hardly ever crosses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from scipy.special import log_ndtr

from discreet.accounting.adaptive import costs
from discreet.accounting.adaptive.codec import check_common
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.adaptive.odometer_base import FULL, QUANTUM, least
from discreet.accounting.interpret import releases
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Event


@dataclass(frozen=True, slots=True)
class GaussianOdometer:
    """The line sum mu^2 -> intercept + (slope + 1/2) sum mu^2, for sums up to a cap.

    A Gaussian release whose mean moves by d <= mu standard deviations has a loss N(d^2 / 2, d^2). So, whatever the
    past decides, L_n is W(t) + t / 2 at t = the sum of d^2, W a Brownian motion. If L_n exceeds the line at the sum of
    mu^2 it exceeds it at t, as the line does not fall (slope >= -1/2). W exceeds a + b t at some t <= T with
    probability Phi(-(a + b T) / sqrt T) + exp(-2 a b) Phi((b T - a) / sqrt T) (reflection; Girsanov for b). With
    T the cap and b the slope, the intercept a makes that delta. Beyond the cap the reading is infinite.
    """

    delta: float
    cap: float
    slope: float = 0.0
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "gdp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", checks.positive("cap", self.cap))
        object.__setattr__(self, "slope", checks.real("slope", self.slope))
        if not self.cap < FULL:
            raise InputError(f"cap must be below {FULL:g}, got {self.cap!r}")
        if not (self.slope >= -0.5 and math.isfinite(self.slope)):
            raise InputError(f"slope must be finite and at least -0.5, got {self.slope!r}")
        check_common(self)

    @classmethod
    def tuned(
        cls,
        delta: float,
        cap: float,
        mu_squared: float,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        unit: Unit = Unit.EXAMPLE,
    ) -> GaussianOdometer:
        """The odometer with the lowest reading once `mu_squared`, a public guess made beforehand, is spent."""
        spent = (min(checks.positive("mu_squared", mu_squared), cap),)
        unit_slope = math.sqrt(-2 * math.log(checks.open_unit("delta", delta)) / spent[0])
        slopes = [-0.5, 0.0, *(unit_slope * 2.0 ** (k / 8) for k in range(-64, 24))]
        made = (cls(delta, cap, slope, adjacency, unit) for slope in slopes)
        return min(made, key=lambda each: each.reading(spent))

    def cost(self, event: Event) -> Amounts:
        """mu^2 of an event; `NotProved` unless its loss is that of Gaussians without sampling.

        Disjoint batches and random allocation are mixtures over a secret partition. A Gaussian dominates them, but the
        chance that their loss exceeds a line is not known to be below a Gaussian's.
        """
        found = costs.mu_squared(event, self.adjacency, QUANTUM)
        if releases(event, self.adjacency).dominated:
            raise NotProved(
                "a gdp odometer reads Gaussian losses, and a secret partition of the units is a mixture of them; use a "
                "zcdp or renyi odometer"
            )
        return found

    def reading(self, spent: Amounts) -> float:
        """The bound on the loss."""
        (total,) = spent
        if not total <= self.cap:
            return math.inf
        return _intercept(self.delta, self.cap, self.slope) + (self.slope + 0.5) * total


@lru_cache(maxsize=256)
def _intercept(delta: float, cap: float, slope: float) -> float:
    root = math.sqrt(cap)

    def rare(height: float) -> bool:
        late = math.exp(float(log_ndtr(-(height + slope * cap) / root)))
        early = math.exp(float(log_ndtr((slope * cap - height) / root)) - 2 * height * slope)
        return (late + early) * (1 + 1e-9) <= delta

    return least(rare, root)
