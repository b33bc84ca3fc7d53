"""The reading of an odometer for charged events, recomputed from the theorems without the trainer's code.

An odometer is fixed before the first release. Its reading bounds the privacy loss L of what was released so far:
P(at some time, L exceeds the reading of that time) <= delta. With c the sums of Renyi divergences at the orders a,

  doubling: Lecuyer 2021, equation 5, at the best of n orders: with s = log(2 n / delta) / (a - 1) and f >= 1 the least
            whole number with c <= 2^(f - 1) s, the reading 2^(f - 1) s + (log(2 n / delta) + 2 log f) / (a - 1);
  renyi:    the L at which the mean over the orders of exp((a - 1) (L - c)) is 1 / delta (Ville's inequality);
  zcdp:     the same with a half-normal mixture over all a - 1 > 0, V = 2 rho and M = L - rho:
            2 sqrt(k / (V + k)) exp(M^2 / 2(V + k)) Phi(M / sqrt(V + k)) = 1 / delta (Robbins 1970);
  gdp:      a line x + (b + 1/2) t over t = mu^2 <= T that Brownian motion with drift crosses with probability delta:
            Phi(-(x + b T) / sqrt T) + exp(-2 x b) Phi((b T - x) / sqrt T) = delta.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

from scipy.special import log_ndtr

from discreet.core.errors import InputError
from discreet.verification.recompute.events import Part, parts, positive
from discreet.verification.recompute.renyi import MOST_ORDERS, renyi

_FIELDS = {
    "doubling": {"delta", "orders"},
    "renyi": {"delta", "orders"},
    "zcdp": {"delta", "scale"},
    "gdp": {"delta", "cap", "slope"},
}
_SHARED = {"odometer", "adjacency", "unit"}
_OUTWARD = 1 + 1e-11


def reading(odometer: Mapping[str, Any], events: Any) -> float:
    """The reading of `odometer` once `events` are charged, from below by no more than rounding."""
    kind = checked(odometer)
    steps = parts(events, odometer["adjacency"])
    if steps.needs_delta or (steps.symmetric and any(part.rate < 1 for part in steps.upper)):
        raise InputError(
            "sparse histograms and batches of bounded or fixed size under an odometer: no theorem here proves it"
        )
    if not steps.upper:
        return 0.0
    log = -math.log(odometer["delta"])
    if kind in ("doubling", "renyi"):
        spent = [(order, renyi(steps.upper, order)) for order in odometer["orders"]]
        return _doubling(spent, log) if kind == "doubling" else _mixture(spent, log)
    mu_squared = _mu_squared(steps.upper)
    if kind == "zcdp":
        return _half_normal(mu_squared / 2, odometer["scale"], log)
    if steps.upper != steps.lower:
        raise InputError("disjoint batches and random allocation have no Gaussian loss, which a gdp odometer reads")
    return _line(mu_squared, odometer["cap"], odometer["slope"], odometer["delta"])


def checked(odometer: Mapping[str, Any]) -> str:
    """The kind of an odometer with valid fields; `InputError` otherwise."""
    kind = odometer["odometer"]
    if kind not in _FIELDS or set(odometer) != _FIELDS[kind] | _SHARED:
        raise InputError(f"odometer {str(kind)[:80]!r} is not known to this verifier, or not its fields")
    if not positive("delta", odometer["delta"]) < 1:
        raise InputError("an odometer's delta is below 1")
    if kind in ("doubling", "renyi"):
        orders = [positive("order", order) for order in odometer["orders"]]
        if len(orders) > MOST_ORDERS:
            raise InputError(f"more than {MOST_ORDERS} orders are not followed")
        if not orders or not orders[0] > 1 or any(one >= other for one, other in itertools.pairwise(orders)):
            raise InputError("an odometer needs orders above 1 that rise")
    elif kind == "zcdp":
        positive("scale", odometer["scale"])
    else:
        positive("cap", odometer["cap"])
        if not (type(odometer["slope"]) is float and -0.5 <= odometer["slope"] < math.inf):
            raise InputError("the slope of an odometer is at least -1/2")
    return str(kind)


def _doubling(spent: list[tuple[float, float]], log: float) -> float:
    """`log` is log(1 / delta)."""
    both = log + math.log(2 * len(spent))

    def at(order: float, cost: float) -> float:
        if not cost < math.inf:
            return math.inf
        first, f = both / (order - 1), 1
        while cost > 2.0 ** (f - 1) * first:
            f += 1
        return 2.0 ** (f - 1) * first + (both + 2 * math.log(f)) / (order - 1)

    return min(at(order, cost) for order, cost in spent)


def _mixture(spent: list[tuple[float, float]], log: float) -> float:
    known = [(order, cost) for order, cost in spent if cost < math.inf]
    if not known:
        return math.inf

    def reached(loss: float) -> bool:
        terms = [(order - 1) * (loss - cost) for order, cost in known]
        top = max(terms)
        return top + math.log(math.fsum(math.exp(term - top) for term in terms)) >= log + math.log(len(spent))

    return _least(reached, 0.0)


def _half_normal(rho: float, scale: float, log: float) -> float:
    width = math.sqrt(2 * rho + scale)

    def reached(loss: float) -> bool:
        share = (loss - rho) / width
        grown = math.log(2) + math.log(math.sqrt(scale) / width) + share * share / 2 + float(log_ndtr(share))
        return grown >= log

    return _least(reached, rho)


def _line(total: float, cap: float, slope: float, delta: float) -> float:
    if not total <= cap:
        return math.inf
    root = math.sqrt(cap)

    def rare(height: float) -> bool:
        late = math.exp(float(log_ndtr(-(height + slope * cap) / root)))
        return late + math.exp(float(log_ndtr((slope * cap - height) / root)) - 2 * height * slope) <= delta

    return max(0.0, _least(rare, 0.0) + (slope + 0.5) * total)


def _least(reached: Callable[[float], bool], low: float) -> float:
    """The least number from `low` on at which a monotone condition holds, to twelve digits, from below."""
    if reached(low):
        return low
    step = 1.0
    while not reached(low + step):
        step *= 2
    begin, end = low, low + step
    while end - begin > 1e-13 * max(1.0, end):
        middle = 0.5 * (begin + end)
        begin, end = (begin, middle) if reached(middle) else (middle, end)
    return begin


def _mu_squared(steps: list[Part]) -> float:
    if any(part.rate < 1 and part.steps == 1 for part in steps):
        raise InputError("sampled releases have no exact mu and no rho; the odometer must be one of Renyi divergences")
    return math.fsum(part.count * part.mu * part.mu for part in steps) * _OUTWARD
