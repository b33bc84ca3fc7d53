"""Privacy odometers: bounds on the privacy loss at whatever time a run stops.

An odometer is frozen data, fixed before the first release, with no limit on what is released. It sums costs, as filters
do, and `read` turns the sums into an `ExPost` statement: P(at some time the privacy loss exceeds the reading of that
time) <= delta. So the reading holds even at a time that depends on the outputs. It is no (epsilon, delta) guarantee.

The privacy loss is L_n = log P(outputs)/Q(outputs), outputs drawn from P, for any neighbours P and Q in either order.

| odometer         | covers                     | reading                                                     |
|------------------|----------------------------|-------------------------------------------------------------|
| DoublingOdometer | whatever has a Rényi curve | Lecuyer 2021, equation 5                                    |
| RenyiOdometer    | the same                   | a mixture over orders; below equation 5 at the same orders  |
| ZcdpOdometer     | no sampling                | a mixture over all orders at once                           |
| GaussianOdometer | Gaussians without sampling | a line that Brownian motion crosses with probability delta  |

Proofs. Given the past, an event with D_alpha <= c has E[exp((alpha - 1) loss)] <= exp((alpha - 1) c). So, for costs
chosen from the past, exp((alpha - 1) (L_n - sum c)) is a supermartingale that starts at 1, and so is every mixture of
these over alpha. By Ville's inequality the mixture ever reaches 1/delta with probability at most delta. A reading is
the loss at which it would (Whitehouse, Ramdas, Rogers, Wu 2023 do so for zCDP). Each class says which mixture it takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from scipy.special import log_ndtr

from discreet.accounting.account import parse
from discreet.accounting.adaptive import codec, costs
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.theories.paper_figures import LECUYER_ORDERS
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.core.guarantee import ExPost

QUANTUM = 2.0**-44
"""Costs are counted in multiples of this."""

FULL = 2.0**53 * QUANTUM
"""A sum that reaches this (512) stays there and reads as infinite: larger sums would round, and protect nobody."""

_OUTWARD = 1 + 1e-12


@dataclass(frozen=True, slots=True)
class DoublingOdometer:
    """Lecuyer 2021, Theorem 2 and equation 5: per order, filters of doubling size.

    With s = log(2 |orders| / delta) / (alpha - 1) and f the smallest with sum <= 2^(f - 1) s, the reading is
    2^(f - 1) s + log(2 |orders| f^2 / delta) / (alpha - 1), at the best order. The f-th filter of an order fails with
    probability at most delta / (2 |orders| f^2), and these add up to less than delta.
    """

    delta: float
    orders: Amounts = LECUYER_ORDERS
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "doubling"

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", costs.check_orders(self.orders))
        _check_common(self)

    def cost(self, event: Event) -> Amounts:
        """D_alpha of an event at each order."""
        return costs.rdp(event, self.adjacency, self.orders, _quanta(self))

    def reading(self, spent: Amounts) -> float:
        """The bound on the loss."""
        return min(map(self._at, self.orders, spent))

    def _at(self, order: float, spent: float) -> float:
        if not spent < FULL:
            return math.inf
        log = math.log(2 * len(self.orders) / self.delta)
        first = log / (order - 1)
        size = 1
        while not spent <= 2.0 ** (size - 1) * first:
            size += 1
        return 2.0 ** (size - 1) * first + (log + 2 * math.log(size)) / (order - 1)


@dataclass(frozen=True, slots=True)
class RenyiOdometer:
    """The mixture of all orders with equal weights: sum over alpha of exp((alpha - 1) (L - sum c)) / |orders|.

    The mixture reaches 1/delta before any single term does, so the reading is below the least of
    sum c + log(|orders| / delta) / (alpha - 1), which is below equation 5. With one order the reading is a line.
    """

    delta: float
    orders: Amounts = LECUYER_ORDERS
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", costs.check_orders(self.orders))
        _check_common(self)

    def cost(self, event: Event) -> Amounts:
        """D_alpha of an event at each order."""
        return costs.rdp(event, self.adjacency, self.orders, _quanta(self))

    def reading(self, spent: Amounts) -> float:
        """The bound on the loss."""
        known = [(order, amount) for order, amount in zip(self.orders, spent, strict=True) if amount < FULL]
        if not known:
            return math.inf
        goal = math.log(len(self.orders) / self.delta) * _OUTWARD
        loss = min(amount + goal / (order - 1) for order, amount in known)
        for _ in range(60):  # Newton from above: the logarithm of the sum is convex, so every iterate bounds the root
            terms = [(order - 1) * (loss - amount) for order, amount in known]
            top = max(terms)
            weights = [math.exp(term - top) for term in terms]
            total = math.fsum(weights)
            slope = math.fsum(w * (order - 1) for w, (order, _) in zip(weights, known, strict=True)) / total
            step = (top + math.log(total) - goal) / slope
            if not step > 1e-13 * loss:
                break
            loss -= step
        return loss


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
        _check_common(self)

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
        return _least(reached, rho + width * math.sqrt(2 * max(0.0, goal + math.log(2))) * _OUTWARD + 1e-9, rho)


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
        _check_common(self)

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
        """mu^2 of an event; `NotProved` unless it is made of Gaussians without sampling."""
        return costs.mu_squared(event, self.adjacency, QUANTUM)

    def reading(self, spent: Amounts) -> float:
        """The bound on the loss."""
        (total,) = spent
        if not total <= self.cap:
            return math.inf
        return _intercept(self.delta, self.cap, self.slope) + (self.slope + 0.5) * total


Odometer = DoublingOdometer | RenyiOdometer | ZcdpOdometer | GaussianOdometer


KINDS: dict[str, type[Odometer]] = {
    kind.kind: kind for kind in (DoublingOdometer, RenyiOdometer, ZcdpOdometer, GaussianOdometer)
}


def start(odometer: Odometer) -> Amounts:
    """The sum spent before the first release: zeros."""
    return (0.0,) * len(_quanta(odometer))


def advance(odometer: Odometer, spent: Sequence[float], cost: Sequence[float]) -> Amounts:
    """The sum spent after a release of this cost; `InputError` for NaN, a negative number or a wrong length."""
    units = _quanta(odometer)
    counted = map(costs.round_up, costs.checked(cost, len(units)), units)
    return tuple(
        min(FULL, before + more) for before, more in zip(costs.checked(spent, len(units)), counted, strict=True)
    )


def read(odometer: Odometer, spent: Sequence[float]) -> ExPost:
    """The reading now; it is 0 before the first release."""
    amounts = costs.checked(spent, len(_quanta(odometer)))
    epsilon = max(0.0, odometer.reading(amounts) * _OUTWARD) if any(amounts) else 0.0
    return ExPost(epsilon, odometer.delta, odometer.adjacency, f"{odometer.kind}-odometer", odometer.unit)


def as_dict(odometer: Odometer) -> dict[str, Any]:
    """JSON-ready fields; `from_dict` is the inverse, to the last bit."""
    return codec.encode("odometer", odometer.kind, odometer)


def from_dict(data: Mapping[str, Any]) -> Odometer:
    """Decode what `as_dict` made. An unknown kind, a missing or an extra field is an `InputError`."""
    return codec.decode("odometer", KINDS, data)


def _least(reached: Callable[[float], bool], high: float, low: float = 0.0) -> float:
    """The least loss, rounded up, from which on `reached` holds; `high` is doubled until it does."""
    if reached(low):
        return low
    while not reached(high):
        high = 2 * high + 1e-9
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


@lru_cache(maxsize=256)
def _intercept(delta: float, cap: float, slope: float) -> float:
    root = math.sqrt(cap)

    def rare(height: float) -> bool:
        late = math.exp(float(log_ndtr(-(height + slope * cap) / root)))
        early = math.exp(float(log_ndtr((slope * cap - height) / root)) - 2 * height * slope)
        return (late + early) * (1 + 1e-9) <= delta

    return _least(rare, root)


def _quanta(odometer: Odometer) -> Amounts:
    return (QUANTUM,) * (len(odometer.orders) if isinstance(odometer, DoublingOdometer | RenyiOdometer) else 1)


def _check_common(odometer: Odometer) -> None:
    object.__setattr__(odometer, "delta", checks.open_unit("delta", odometer.delta))
    object.__setattr__(odometer, "adjacency", parse(Adjacency, "adjacency", odometer.adjacency))
    object.__setattr__(odometer, "unit", parse(Unit, "unit", odometer.unit))
