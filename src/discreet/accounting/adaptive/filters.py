"""Privacy filters: what may still be released when each event is chosen from the outputs of earlier ones.

A filter is frozen data, fixed before the first release: a budget in a currency that adds up (`costs`). Before each
release, `filter_decision.decide` admits or refuses its cost; a refused event is not released. Then the filter's
`guarantee` holds for all releases together, however events were chosen and wherever the run stops.

| filter         | budget                           | admits while                     | proof                        |
|----------------|----------------------------------|----------------------------------|------------------------------|
| RdpOrderFilter | D_alpha at one order             | the sum is within it             | Feldman, Zrnic 2021          |
| RdpCurveFilter | a curve alpha -> B(alpha)        | the sum is within it, all orders | the same, order by order     |
| ZcdpFilter     | rho                              | the sum is within it             | the same, B = alpha rho      |
| GaussianFilter | mu^2, Gaussians without sampling | the sum is within it             | Smith, Thakurta 2022         |
| BasicFilter    | (epsilon, delta)                 | both sums are within it          | Rogers et al. 2016           |

The first is also Theorem 1 of Lecuyer 2021, the third is in Whitehouse et al. 2023, the fourth in Koskela et al. 2023.

Corollary 1 of Lecuyer 2021 admits while *some* order has room. That is not proved, so it is no filter here.

Adding a unit and removing it are both covered: costs bound the divergence in either direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np

from discreet.accounting.account import parse
from discreet.accounting.adaptive import codec, costs
from discreet.accounting.adaptive.costs import Amounts
from discreet.accounting.theories import gdp, rdp, zcdp
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Event
from discreet.core.guarantee import Guarantee


class Conversion(StrEnum):
    """How Rényi DP at one order becomes (epsilon, delta)."""

    CLASSIC = "classic"
    """Mironov 2017, Proposition 3."""
    IMPROVED = "improved"
    """Canonne, Kamath, Steinke 2020, Proposition 12."""

    @property
    def rule(self) -> rdp.Conversion:
        """The formula."""
        return rdp.classic if self is Conversion.CLASSIC else rdp.improved


@dataclass(frozen=True, slots=True)
class RdpOrderFilter:
    """A budget `limit` on the Rényi divergence at one `order`, which was chosen before the first release."""

    order: float
    limit: float
    delta: float
    conversion: Conversion = Conversion.IMPROVED
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "rdp-order"

    def __post_init__(self) -> None:
        costs.check_orders((self.order,))
        object.__setattr__(self, "limit", checks.positive("limit", self.limit))
        object.__setattr__(self, "conversion", parse(Conversion, "conversion", self.conversion))
        _check_common(self)

    @property
    def limits(self) -> Amounts:
        """The budget."""
        return (self.limit,)

    def cost(self, event: Event) -> Amounts:
        """D_alpha of an event at the order."""
        return costs.rdp(event, self.adjacency, (self.order,), quanta(self))

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """The guarantee for everything that the filter admits, at its delta or any other."""
        return _stated(self, delta, lambda at: _converted((self.order,), self.limits, at, self.conversion.rule))


@dataclass(frozen=True, slots=True)
class RdpCurveFilter:
    """A budget at each of several orders; an event must fit at all of them.

    Then the theorem for one order holds at every order, so epsilon is the best conversion over orders, at any delta.
    """

    orders: Amounts
    limits: Amounts
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "rdp-curve"

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", costs.check_orders(self.orders))
        object.__setattr__(self, "limits", tuple(checks.positive("limits", limit) for limit in self.limits))
        if len(self.limits) != len(self.orders):
            raise InputError(f"a curve needs a limit per order: {len(self.orders)} orders, {len(self.limits)} limits")
        _check_common(self)

    def cost(self, event: Event) -> Amounts:
        """D_alpha of an event at each order."""
        return costs.rdp(event, self.adjacency, self.orders, quanta(self))

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """The guarantee for everything that the filter admits, at its delta or any other."""
        return _stated(self, delta, lambda at: _converted(self.orders, self.limits, at, rdp.improved))


@dataclass(frozen=True, slots=True)
class ZcdpFilter:
    """A budget rho of zCDP: at every order alpha, the sums stay within alpha rho."""

    rho: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "zcdp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", checks.positive("rho", self.rho))
        _check_common(self)

    @property
    def limits(self) -> Amounts:
        """The budget."""
        return (self.rho,)

    def cost(self, event: Event) -> Amounts:
        """rho of an event; `NotProved` with sampling."""
        return costs.rho(event, self.adjacency, quanta(self)[0])

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """The guarantee for everything that the filter admits, at its delta or any other."""
        return _stated(self, delta, lambda at: zcdp.epsilon(self.rho, at))


@dataclass(frozen=True, slots=True)
class GaussianFilter:
    """A budget mu^2 of Gaussian DP. It costs no more than a plan that was fixed beforehand."""

    mu_squared: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "gdp"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", checks.positive("mu_squared", self.mu_squared))
        _check_common(self)

    @property
    def limits(self) -> Amounts:
        """The budget."""
        return (self.mu_squared,)

    def cost(self, event: Event) -> Amounts:
        """mu^2 of an event; `NotProved` unless it is made of Gaussians without sampling."""
        return costs.mu_squared(event, self.adjacency, quanta(self)[0])

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """The guarantee for everything that the filter admits, at its delta or any other."""
        mu = math.sqrt(self.mu_squared) * (1 + 2.0**-50)
        return _stated(self, delta, lambda at: gdp.epsilon_bounds(mu, at)[1])


@dataclass(frozen=True, slots=True)
class BasicFilter:
    """A budget of (epsilon, delta) for parts, such as whole runs, that have guarantees of their own.

    A part is charged whole: its one pair covers all that it may release, so nothing returns.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE

    kind: ClassVar[str] = "basic"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon))
        _check_common(self)

    @property
    def limits(self) -> Amounts:
        """The budget."""
        return (self.epsilon, self.delta)

    def cost(self, event: Event) -> Amounts:
        """An event has no (epsilon, delta) of its own."""
        raise NotProved("the basic filter adds up guarantees of whole runs, not events; use a filter of another kind")

    def guarantee(self, delta: float | None = None) -> Guarantee:
        """The budget itself; nothing is proved at a smaller delta."""
        if delta is not None and not checks.open_unit("delta", delta) >= self.delta:
            raise NotProved(f"the basic filter proves nothing at a delta below its own, {self.delta:g}")
        return _stated(self, delta, lambda _: self.epsilon)


Filter = RdpOrderFilter | RdpCurveFilter | ZcdpFilter | GaussianFilter | BasicFilter

KINDS: dict[str, type[Filter]] = {
    kind.kind: kind for kind in (RdpOrderFilter, RdpCurveFilter, ZcdpFilter, GaussianFilter, BasicFilter)
}


def quanta(budget: Filter) -> Amounts:
    """The unit in which costs are counted: one ulp of each limit."""
    return tuple(map(math.ulp, budget.limits))


def as_dict(budget: Filter) -> dict[str, Any]:
    """JSON-ready fields; `from_dict` is the inverse, to the last bit."""
    return codec.encode("filter", budget.kind, budget)


def from_dict(data: Mapping[str, Any]) -> Filter:
    """Decode what `as_dict` made. An unknown kind, a missing or an extra field is an `InputError`."""
    return codec.decode("filter", KINDS, data)


def _stated(budget: Filter, delta: float | None, epsilon: Callable[[float], float]) -> Guarantee:
    at = budget.delta if delta is None else checks.open_unit("delta", delta)
    return Guarantee(epsilon(at), at, budget.adjacency, f"{budget.kind}-filter", unit=budget.unit)


def _converted(orders: Amounts, limits: Amounts, delta: float, rule: rdp.Conversion) -> float:
    return rdp.epsilon(lambda _: np.asarray(limits), delta, rule, orders=orders, refine=False)[0]


def _check_common(budget: Filter) -> None:
    codec.check_common(budget)
    if not all(limit >= 1e-280 for limit in budget.limits):
        raise InputError("a limit must be at least 1e-280")
