"""Whether charged events fit a privacy filter, and the guarantee that the filter proves.

A filter is fixed before the first release: limits on sums of Rényi divergences (at one order or several), of rho (zCDP)
or of mu^2 (Gaussian DP). On every path of choices the sums stay within the limits, so the limits convert to (epsilon,
delta) as if a plan had spent them (Feldman and Zrnic 2021; Lecuyer 2021, theorem 1; Smith and Thakurta 2022 for mu).
Written from the theorems, without the trainer's code; JSON as it stands in certificates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from discreet.core.errors import InputError
from discreet.verification.recompute import exponential, gaussian
from discreet.verification.recompute.events import Part, parts, positive
from discreet.verification.recompute.renyi import MOST_ORDERS, renyi

_FIELDS = {
    "rdp-order": {"order", "limit", "delta", "conversion"},
    "rdp-curve": {"orders", "limits", "delta"},
    "zcdp": {"rho", "delta"},
    "gdp": {"mu_squared", "delta"},
}
_SHARED = {"filter", "adjacency", "unit"}

_OUTWARD = 1 + 1e-11


def excess(filter_: Mapping[str, Any], events: Any) -> float:
    """The largest ratio of an upper bound on the cost of `events` to a limit of the filter: they fit if it is at most
    1."""
    kind = checked(filter_)
    rho = 0.0
    if kind == "zcdp":
        events, rho = exponential.apart(events, filter_["adjacency"])
    steps = parts(events, filter_["adjacency"])
    if steps.needs_delta or (steps.symmetric and any(part.rate < 1 for part in steps.upper)):
        raise InputError(
            "sparse histograms and batches of bounded or fixed size under a filter: no theorem here proves it"
        )
    if kind in ("rdp-order", "rdp-curve"):
        return max(renyi(steps.upper, order) / limit for order, limit in _limits(filter_))
    mu_squared = _mu_squared(steps.upper)
    return float(mu_squared / filter_["mu_squared"] if kind == "gdp" else (mu_squared / 2 + rho) / filter_["rho"])


def epsilon(filter_: Mapping[str, Any], loosened: float, delta: float) -> float:
    """The epsilon at `delta` of the filter with limits `loosened` times as large, rounded up."""
    kind = checked(filter_)
    if kind == "gdp":
        return gaussian.epsilon_bounds(math.sqrt(filter_["mu_squared"] * loosened) * _OUTWARD, delta)[1]
    if kind == "zcdp":
        rho = filter_["rho"] * loosened
        best = 1 + math.sqrt(-math.log(delta) / rho)  # of the classic conversion; the improved one is near
        return min(_improved(a, a * rho, delta) for a in (1 + (best - 1) * 1.001**k for k in range(-1200, 1200)))
    convert = _classic if filter_.get("conversion") == "classic" else _improved
    return min(convert(order, limit * loosened, delta) for order, limit in _limits(filter_))


def checked(filter_: Mapping[str, Any]) -> str:
    """The kind of a filter with valid fields; `InputError` otherwise."""
    kind = filter_["filter"]
    if kind not in _FIELDS:
        raise InputError(f"filter {kind!r} is not known to this verifier; known: {', '.join(_FIELDS)}")
    if set(filter_) != _FIELDS[kind] | _SHARED:
        raise InputError(f"filter {kind!r} needs exactly the fields {sorted(_FIELDS[kind] | _SHARED)}")
    for name in ("limit", "rho", "mu_squared"):
        if name in filter_:
            positive(name, filter_[name])
    if kind == "rdp-order" and filter_["conversion"] not in ("classic", "improved"):
        raise InputError(f"unknown conversion {filter_['conversion']!r}; known: classic, improved")
    if kind in ("rdp-order", "rdp-curve"):
        _limits(filter_)
    return str(kind)


def _limits(filter_: Mapping[str, Any]) -> list[tuple[float, float]]:
    """(order, limit) pairs."""
    single = filter_["filter"] == "rdp-order"
    orders = [filter_["order"]] if single else filter_["orders"]
    limits = [filter_["limit"]] if single else filter_["limits"]
    if len(orders) > MOST_ORDERS:
        raise InputError(f"more than {MOST_ORDERS} orders are not followed")
    pairs = [(positive("order", a), positive("limit", b)) for a, b in zip(orders, limits, strict=True)]
    if not pairs or not pairs[0][0] > 1 or any(one >= other for (one, _), (other, _) in itertools.pairwise(pairs)):
        raise InputError("a filter needs orders above 1 that rise")
    return pairs


def _mu_squared(steps: list[Part]) -> float:
    if any(part.rate < 1 for part in steps):
        raise InputError("sampled releases have no exact mu and no rho; the filter must be one of Rényi divergences")
    return math.fsum(part.count * part.mu * part.mu for part in steps) * _OUTWARD


def _classic(order: float, amount: float, delta: float) -> float:
    """Mironov 2017, proposition 3."""
    return _up(amount, -math.log(delta) / (order - 1))


def _improved(order: float, amount: float, delta: float) -> float:
    """Canonne, Kamath and Steinke 2020, proposition 12."""
    return _up(amount, math.log((order - 1) / order), -math.log(delta) / (order - 1), -math.log(order) / (order - 1))


def _up(*terms: float) -> float:
    total = math.fsum(terms) + 1e-13 * math.fsum(map(abs, terms))
    return max(0.0, total) if total < math.inf else math.inf
