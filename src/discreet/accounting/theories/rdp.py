"""Rényi differential privacy: curves alpha -> D_alpha of each mechanism, composition, conversion to (epsilon, delta).

| mechanism                | bound                                                        | Mironov                    |
|--------------------------|--------------------------------------------------------------|----------------------------|
| Gaussian                 | alpha / (2 s^2)                                              | 2017, Prop. 7              |
| Laplace, scale b         | closed form (`laplace`)                                      | 2017, Prop. 6              |
| Poisson-sampled Gaussian | whole orders: a sum; others: quadrature (`poisson_moments`)  | with Talwar and Zhang 2019 |

For the last, the divergence of the mixture from the null dominates both directions at every order >= 1 (Theorem 5
there). Every order gives a bound, and so the least of them is a bound; an order that fails is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from discreet.accounting.golden_section import minimise
from discreet.accounting.theories import poisson_moments
from discreet.core.array_types import Array

Curve = Callable[[Sequence[float]], Array]
"""RDP of all releases at each of the given orders (> 1), rounded up."""

Conversion = Callable[[Array, Array, float], Array]
"""(orders, rdp, delta) -> an epsilon at each order."""

ORDERS: tuple[float, ...] = (
    *(1.01, 1.03, 1.0625, 1.125, 1.1875, 1.25, 1.375, 1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.5, 4, 4.5, 5, 6, 7, 8),
    *(10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1024),
)
"""Where the search for the best order starts."""

OUTWARD = 1 + 1e-10
"""Covers rounding in sums of terms with a relative error of about 1e-12."""


def gaussian(noise: float, orders: Sequence[float]) -> Array:
    """RDP of a Gaussian release with effective noise multiplier `noise`, without sampling."""
    return np.asarray(orders, dtype=np.float64) / (2 * noise**2) * OUTWARD


def sampled_gaussian(rate: float, noise: float, orders: Sequence[float]) -> Array:
    """RDP of a Gaussian release in which every unit took part with probability `rate`, under add/remove."""
    if rate == 1:
        return gaussian(noise, orders)
    order = np.asarray(orders, dtype=np.float64)
    result: Array = poisson_moments.log_moment(rate, noise, order) / (order - 1) * OUTWARD
    return result


def sampled_gaussians(rates: Array, noises: Array, counts: Array, orders: Sequence[float]) -> Array:
    """RDP of all releases together: `counts[i]` at `rates[i]` < 1 and `noises[i]`; all three have shape (k,)."""
    order = np.asarray(orders, dtype=np.float64)
    size = len(order)
    moments = poisson_moments.log_moment(np.repeat(rates, size), np.repeat(noises, size), np.tile(order, len(rates)))
    totals = counts @ moments.reshape(len(rates), size) / (order - 1)
    result: Array = totals * OUTWARD * (1 + 2.0**-50 * (len(counts) + 1))
    return result


def laplace(epsilon: float, orders: Sequence[float]) -> Array:
    """RDP of Laplace noise of scale 1/epsilon relative to the L1 sensitivity.

    D = log(w e^((a - 1) eps) + (1 - w) e^(-a eps)) / (a - 1) with w = a / (2 a - 1). This is for one number that
    moves by 1. As a function of eps it is convex and 0 at 0, so a query whose numbers move by c_i with sum 1 costs at
    most as much. The first-order terms cancel; their rounding is added.
    """
    order = np.asarray(orders, dtype=np.float64)
    weight, rest = order / (2 * order - 1), (order - 1) / (2 * order - 1)  # 1 - weight would cancel near order 1
    top = (order - 1) * epsilon
    # log(w e^top + (1 - w) e^(-a eps)) = top + log(w + (1 - w) e^(-(2 a - 1) eps)) where e^top would overflow
    large = (top + np.log(weight + rest * np.exp(-(2 * order - 1) * epsilon))) * OUTWARD
    rise, fall = weight * np.expm1(np.minimum(top, 1.0)), rest * np.expm1(-order * epsilon)
    small = np.log1p(rise + fall + 2.0**-50 * (rise - fall))
    return np.minimum(np.where(top > 1.0, large, small) / (order - 1), epsilon) * OUTWARD


def compose(curves: Sequence[tuple[Curve, int]]) -> Curve:
    """The curve of `count` releases of each part together: RDP adds up order by order."""

    def total(orders: Sequence[float]) -> Array:
        result = np.zeros(len(orders))
        for curve, count in curves:
            result += count * curve(orders)
        return result * (1 + 2.0**-50 * (len(curves) + 1))

    return total


def classic(orders: Array, rdp: Array, delta: float) -> Array:
    """epsilon = rdp + log(1/delta) / (alpha - 1): Mironov 2017, Proposition 3."""
    result: Array = rdp - math.log(delta) / (orders - 1)
    return result


def improved(orders: Array, rdp: Array, delta: float) -> Array:
    """epsilon = rdp + log((a - 1) / a) - (log delta + log a) / (a - 1): Canonne, Kamath, Steinke 2020, Prop. 12."""
    result: Array = rdp + np.log((orders - 1) / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return result


def epsilon(
    curve: Curve,
    delta: float,
    conversion: Conversion = improved,
    orders: Sequence[float] = ORDERS,
    refine: bool = True,
) -> tuple[float, float]:
    """The least epsilon over the orders, and its order; both infinite on failure.

    With `refine`, golden section searches around the best of `orders`, on log(order - 1). Without it, only `orders` are
    tried, as a filter needs that tracks no others.
    """

    def at(candidates: Sequence[float]) -> Array:
        with np.errstate(all="ignore"):
            bound = conversion(np.asarray(candidates, dtype=np.float64), curve(candidates), delta)
        return np.where(np.isfinite(bound), bound * np.where(bound > 0, OUTWARD, 1.0) + 1e-12, np.inf)

    values = at(orders)
    index = int(np.argmin(values))
    best, order = float(values[index]), float(orders[index])
    if math.isinf(best):
        return math.inf, math.inf
    if refine and best > 0:
        low, high = orders[max(0, index - 1)], orders[min(len(orders) - 1, index + 1)]
        above, least = minimise(lambda above: float(at([1 + above])[0]), low - 1, high - 1, 2e-3)
        best, order = min((best, order), (least, 1 + above))
    return max(0.0, best), order


def delta_upper(curve: Curve, epsilon: float, orders: Sequence[float] = ORDERS) -> float:
    """The least delta over `orders` at which the curve gives `epsilon`: the proposition of `improved`, inverted.

    delta = exp((a - 1) (rdp - eps)) / a x (1 - 1/a)^(a - 1), at most 1.
    """
    order = np.asarray(orders, dtype=np.float64)
    with np.errstate(all="ignore"):
        log_delta = (order - 1) * (curve(orders) - epsilon + np.log1p(-1 / order)) - np.log(order)
    least = float(np.min(np.where(np.isnan(log_delta), np.inf, log_delta)))
    return 1.0 if not least < 0 else min(1.0, math.exp(least) * (1 + 1e-9) + 1e-300)
