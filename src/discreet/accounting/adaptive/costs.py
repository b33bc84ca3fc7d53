"""The cost of an event in each currency that adds up under adaptive choice, and sums of costs that do not round.

| currency | numbers                             | covers                                             |
|----------|-------------------------------------|----------------------------------------------------|
| rdp      | D_alpha at each of the given orders | Gaussian, sampled Gaussian, pure, Selection        |
| zcdp     | rho                                 | Gaussian and pure without sampling                 |
| mu2      | mu^2 of Gaussian DP                 | Gaussian without sampling                          |

Every number is rounded up to a multiple of a *quantum*, a power of two that is fixed before the first release. Sums of
multiples of a quantum are exact in floating point up to 2^53 quanta. So the sum spent depends on the releases alone,
not on their order or on how they were grouped into events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from discreet.accounting.interpret import releases
from discreet.accounting.releases import Releases
from discreet.accounting.theories import zcdp
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import DiscreetError, InputError, NotProved
from discreet.core.events import Event, tally

Amounts = tuple[float, ...]
"""A cost or a sum of costs: one number >= 0 per order, or a single number."""

_CACHED = 1024

_Price = Callable[[Event], Amounts]


def rdp(event: Event, adjacency: Adjacency, orders: tuple[float, ...], quanta: Amounts) -> Amounts:
    """D_alpha of `event` at `orders`, in whole `quanta`; infinite at an order at which nothing is proved."""
    return _priced(event, lambda part: _rdp_in_quanta(part, adjacency, orders, quanta), quanta)


def rho(event: Event, adjacency: Adjacency, quantum: float) -> Amounts:
    """The zCDP rho of `event`; a sampled release is `NotProved`, since rho gains nothing from sampling."""
    return _priced(event, lambda part: _in_quanta(_rho(part, adjacency), (quantum,)), (quantum,))


def mu_squared(event: Event, adjacency: Adjacency, quantum: float) -> Amounts:
    """mu^2 of `event`; `NotProved` unless the event is exactly Gaussian-differentially private."""
    return _priced(event, lambda part: _in_quanta(_mu_squared(part, adjacency), (quantum,)), (quantum,))


def check_orders(orders: Sequence[float]) -> Amounts:
    """Return `orders` as floats; `InputError` unless they are finite, above 1 and increasing."""
    checked = tuple(checks.positive("order", order) for order in orders)
    if not checked or not checked[0] > 1 or any(not low < high for low, high in pairwise(checked)):
        raise InputError(f"orders must be above 1 and increasing, got {list(checked)}")
    return checked


def checked(amounts: Sequence[float], length: int) -> Amounts:
    """`amounts` as floats; `InputError` for NaN, a negative number or a wrong length. Infinity is allowed."""
    if len(amounts) != length:
        raise InputError(f"a cost here has {length} numbers, got {len(amounts)}")
    if not all(type(amount) is float and amount >= 0 for amount in amounts):
        amounts = [checks.real("a cost", amount) for amount in amounts]
        if not all(amount >= 0 for amount in amounts):
            raise InputError(f"a cost must be at least 0, got {min(amounts)!r}")
    return tuple(amounts)


def round_up(amount: float, quantum: float) -> float:
    """The least multiple of `quantum` (a power of two) that is not below `amount`; infinite beyond 2^54 quanta."""
    if not amount <= 2.0**54 * quantum:
        return math.inf
    units = math.ceil(amount / quantum)  # exact: dividing by a power of two; an underflow is caught below
    return units * quantum if units or not amount else quantum


def _priced(event: Event, price: _Price, quanta: Amounts) -> Amounts:
    """The sum over elementary events of count x price, which is exact while it is at most 2^53 quanta."""
    parts = {part: min(count, 2**60) for part, count in tally(event).items()}  # more would fit no filter
    if len(parts) == 1:
        ((part, count),) = parts.items()
        return price(part) if count == 1 else tuple(count * amount for amount in price(part))
    total = [0.0] * len(quanta)
    for part, count in parts.items():
        total = [so_far + count * amount for so_far, amount in zip(total, price(part), strict=True)]
    return tuple(total)


def _in_quanta(amounts: Amounts, quanta: Amounts) -> Amounts:
    """Rounded up, and at least one quantum: no release is free, not even if its cost underflows."""
    return tuple(max(quantum, round_up(amount, quantum)) for amount, quantum in zip(amounts, quanta, strict=True))


@lru_cache(maxsize=_CACHED)
def _rdp_in_quanta(part: Event, adjacency: Adjacency, orders: tuple[float, ...], quanta: Amounts) -> Amounts:
    return _in_quanta(_rdp(part, adjacency, orders), quanta)


@lru_cache(maxsize=_CACHED)
def _rdp(part: Event, adjacency: Adjacency, orders: tuple[float, ...]) -> Amounts:
    return _proved(lambda: _untruncated(part, adjacency).rdp_curve()(orders), len(orders))


@lru_cache(maxsize=_CACHED)
def _rho(part: Event, adjacency: Adjacency) -> Amounts:
    def found() -> list[float]:
        parts = _untruncated(part, adjacency)
        if parts.sampled:
            raise NotProved(
                "zCDP gains nothing from sampling and has no proved rho here; use an rdp filter or odometer"
            )
        if parts.selections:
            raise NotProved("a Selection has no proved rho here; use an rdp filter or odometer")
        rhos = [each.count * zcdp.gaussian(each.noise) for each in parts.gaussians]
        return [zcdp.compose([*rhos, *(each.count * each.rho for each in parts.pures)])]

    return _proved(found, 1)


@lru_cache(maxsize=_CACHED)
def _mu_squared(part: Event, adjacency: Adjacency) -> Amounts:
    def found() -> list[float]:
        parts = _untruncated(part, adjacency)
        if parts.sampled or parts.pures or parts.selections:
            raise NotProved(
                "a sampled, Laplace or other pure release, or a Selection, has no exact mu, "
                "and the mu of a limit theorem proves nothing; "
                "use an rdp filter or odometer"
            )
        return [2 * zcdp.compose(each.count * zcdp.gaussian(each.noise) for each in parts.gaussians)]

    return _proved(found, 1)


def _untruncated(part: Event, adjacency: Adjacency) -> Releases:
    found = releases(part, adjacency)
    if found.overflow > 0:
        raise NotProved("truncated batches cost part of delta, which no filter adds up; use Poisson batches")
    if found.escapes > 0:
        raise NotProved(
            "a sparse histogram costs part of delta, which no filter or odometer adds up; list the values, or leave "
            "the filter or odometer out"
        )
    return found


def _proved(compute: Callable[[], Iterable[float]], length: int) -> Amounts:
    """The amounts that `compute` returns, NaN made infinite; all infinite if it fails numerically."""
    try:
        with np.errstate(all="ignore"):
            return tuple(float(value) if value >= 0 else math.inf for value in compute())
    except DiscreetError:
        raise
    except (ArithmeticError, ValueError):
        return (math.inf,) * length
