"""The characteristic function of the tilted privacy loss of Poisson-sampled Gaussians, with every error bounded.

Tilted by an order lambda, the loss l of one release has density p(x) e^(lambda l(x)) / M(lambda) over the outcomes,
M(z) = E_P[e^(z l)]. In both directions the integrand of M is phi(x / s) W(x)^a, where W = 1 - q + q e^u,
u = (2 x - 1) / (2 s^2), and a = z + 1 (removal, l = log W) or -z (addition, l = -log W). It is analytic in
|Im x| < pi s^2, so the trapezoidal rule converges exponentially: a hundred nodes do what takes tens of thousands of
points on a grid of losses.

Large, rare losses can be left out: an outcome is set aside with probability 1 - g(x), g(x) = Phi((cut - x) / width).
All measures then carry the factor g, and M(0) falls short of 1 by `Parts.aside`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Direction
from discreet.core.array_types import Array, ComplexArray, IndexArray

_ANGLES = np.geomspace(0.05, 2.0, 30)
_LEVELS = np.exp2(-np.arange(10.0))
_MOST_PLANNED, _PLANNED_TOGETHER = 1500, 24
_BLOCK = 2**17
"""The most numbers in a temporary array, so that it fits in the cache."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Releases of one direction: rates in (0, 1], effective noise multipliers and counts, each of shape (k, 1).

    `cut` and `width` have that shape too; an infinite cut sets nothing aside.
    """

    rate: Array
    noise: Array
    count: Array
    direction: Direction
    cut: Array
    width: Array

    @classmethod
    def whole(cls, rate: Array, noise: Array, count: Array, direction: Direction) -> Parts:
        """Releases without any outcome set aside."""
        return cls(rate, noise, count, direction, np.full_like(noise, np.inf), np.full_like(noise, np.inf))

    def without(self, mass: float) -> Parts:
        """The same releases with outcomes of largest loss set aside, of about `mass` in all."""
        each = mass / float(self.count.sum())
        width = np.minimum(self.noise / 2, self.noise**2 / 8)
        spread = np.hypot(self.noise, width)
        reach = [-ndtri(np.minimum(share, 0.5)) * spread for share in (each / (2 * self.rate), each / 2 + 0 * spread)]
        return replace(self, cut=np.maximum(1 + reach[0], reach[1]), width=width)

    @property
    def aside(self) -> float:
        """An upper bound on the probability that the outcome of any release is set aside."""
        spread = np.hypot(self.noise, self.width)
        each = self.rate * ndtr((1 - self.cut) / spread) + (1 - self.rate) * ndtr(-self.cut / spread)
        return float(np.sum(self.count * np.where(np.isfinite(self.cut), each, 0.0))) * (1 + 1e-9)

    def __getitem__(self, rows: IndexArray) -> Parts:
        rate, noise, count = self.rate[rows], self.noise[rows], self.count[rows]
        return Parts(rate, noise, count, self.direction, self.cut[rows], self.width[rows])

    def __len__(self) -> int:
        return len(self.rate)

    def power(self, order: float) -> float:
        """The real part a of the exponent of W."""
        return order + 1 if self.direction is Direction.REMOVAL else -order


@dataclass(frozen=True, slots=True)
class Rule:
    """Nodes for the integrals of each part: arrays of shape (k, n), or (k, 1) with one value per part.

    `weight` sums to 1 over the nodes. `log_moment` is log M(order), `error` a bound on the error of M(order + i t)
    relative to M(order), for every |t| up to the `top` given to `rule`. `log_slope` is log(s^2 |dl/dx|).
    """

    x: Array
    step: Array
    log_slope: Array
    loss: Array
    log_weight: Array
    weight: Array
    log_moment: Array
    error: Array


def rule(parts: Parts, order: float, top: float, need: float, nodes: int) -> Rule:
    """The trapezoidal rule with `nodes` nodes (at least `node_count` of them), for frequencies up to `top`."""
    s, a = parts.noise, parts.power(order)
    low, high = _range(parts, order, need)
    step = (high - low) / (nodes - 1)
    x = low + step * np.arange(nodes)
    u = (2 * x - 1) / (2 * s**2)
    log_rate = np.log(parts.rate)
    with np.errstate(divide="ignore"):
        log_rest = np.log1p(-parts.rate)
    log_w = np.logaddexp(log_rest, log_rate + u)
    log_kept, kept_error = _log_kept(parts, x)
    exponent = a * log_w - 0.5 * (x / s) ** 2 + log_kept
    peak = exponent.max(axis=1, keepdims=True)
    log_weight = exponent - peak
    weight = np.exp(log_weight)
    total = weight.sum(axis=1, keepdims=True)
    weight /= total
    scale = np.log(s * math.sqrt(2 * math.pi))
    log_moment = peak + np.log(total * step) - scale
    # Rounding of log W: that of its larger term, and that relative to the amount that e^u adds.
    above = np.where(parts.rate < 1, log_w - log_rest, 1.0)
    loss_error = np.abs(log_w) + np.where(parts.rate < 1, -log_rest, 0.0) + above * (1 + np.abs(u) - log_rate)
    each = (abs(a) + top) * loss_error + 2 + (x / s) ** 2 + top * np.abs(log_w) + kept_error
    rounding = 8 * UNIT_ROUNDOFF * (np.sum(weight * each, axis=1, keepdims=True) + np.abs(peak) + np.abs(scale) + 2)
    rounding += 4 * UNIT_ROUNDOFF * nodes
    # Beyond the ends the integrand falls from node to node by e^(-reach step / s) or more (see `_range`).
    ends = (1.01 * weight[:, :1] + weight[:, -1:]) / -np.expm1(-step * _reach(need) / s)
    error = 2.2 * math.exp(-need) + 1.01 * ends + rounding
    loss = log_w if parts.direction is Direction.REMOVAL else -log_w
    return Rule(x, step, log_rate + u - log_w, loss, log_weight - np.log(total), weight, log_moment, error)


def node_count(parts: Parts, order: float, top: float, need: float) -> Array:
    """The number of nodes each part needs for an error of 2 e^-need relative to M(order), for frequencies up to `top`.

    With step h the error of the rule is at most 2 N / (e^(2 pi b / h) - 1) for any b < pi s^2, where N bounds the
    integral of the modulus on each line |Im x| <= b (Trefethen and Weideman 2014, Theorem 5.1). There, with
    y = s^2 theta, |phi| grows by e^(y^2 / 2 s^2), g by e^(y^2 / 2 width^2), W^(i t) by e^(t theta), and W^a by
    cos(theta / 2)^a if a < 0, since W cos(theta / 2) <= |W(x + iy)| <= W(x).
    """
    s2, a = parts.noise**2, parts.power(order)
    bend = s2 * (1 + s2 / parts.width**2)
    angles = np.minimum(np.minimum(3.0, math.sqrt(2 * need) / np.sqrt(bend)) * _ANGLES, 3.0)
    growth = bend * angles**2 / 2 + top * angles + max(0.0, -a) * -np.log(np.cos(angles / 2))
    step = 2 * math.pi * s2 * np.max(angles / (need + growth), axis=1, keepdims=True)
    low, high = _range(parts, order, need)
    result: Array = np.ceil((high - low) / step)[:, 0] + 2
    return result


def _reach(need: float) -> float:
    return math.sqrt(2 * need) + 0.5


def _range(parts: Parts, order: float, need: float) -> tuple[Array, Array]:
    """Outcomes outside which the integrand falls at least like e^(-reach |x| / s).

    Its logarithm has the derivative (-x + a sigma) / s^2 + (log g)' with sigma in (0, 1). On the left (log g)' is
    negligible, since the cut is more than sixteen widths away; on the right it is below -(x - cut) / width^2.
    """
    a, reach = parts.power(order), _reach(need)
    high = max(0.0, a) + reach * parts.noise
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isfinite(parts.cut), (parts.width / parts.noise) ** 2, 0.0)
        cut_off = parts.cut + parts.width * reach + np.maximum(a - parts.cut, 0.0) * ratio
    return min(-1.0, a) - reach * parts.noise, np.where(np.isfinite(parts.cut), np.minimum(high, cut_off), high)


def _log_kept(parts: Parts, x: Array) -> tuple[Array, Array]:
    """log g at the outcomes `x`, and its rounding error in units of eight roundings."""
    if not np.any(np.isfinite(parts.cut)):
        return np.zeros(1), np.zeros(1)
    z = (x - parts.cut) / parts.width
    moved = (np.abs(x) + np.abs(parts.cut)) / parts.width
    return log_ndtr(-z), np.where(z > -40, 4 + np.maximum(z, 0.0) ** 2 + moved * (1 + np.maximum(z, 0.0)), 0.0)


def rules(
    parts: Parts, order: float, top: float, need: float, width: int = 1, finer: float = 1.0
) -> Iterator[tuple[Parts, Rule]]:
    """`rule` for batches of parts that need similar numbers of nodes, with at most `_BLOCK` / `width` numbers each."""
    nodes = np.ceil(finer * node_count(parts, order, top, need))
    by_size = np.argsort(nodes, kind="stable")[::-1]
    start = 0
    while start < len(by_size):
        most = float(nodes[by_size[start]])
        rows = max(1, int(_BLOCK // (most * width)))
        batch = by_size[start : start + rows]
        batch = batch[nodes[batch] > 0.7 * most - 8]
        chosen = parts[batch] if len(parts) > 1 else parts
        yield chosen, rule(chosen, order, top, need, int(most))
        start += len(batch)


@dataclass(frozen=True, slots=True)
class Decay:
    """A bound on the modulus of the tilted characteristic function: `bound(t)` falls with t.

    The density rho of the tilted loss, cut off at a level c, has mass p and total variation V; for the
    distribution with density min(rho, c) / p and v = V / p, |f(t)| <= v / t, and since
    1 - |f(n t)|^2 <= n^2 (1 - |f(t)|^2) for whole n, with n = ceil(sqrt(2) v / t) also
    |f(t)|^2 <= 1 - (t / (sqrt(2) v + t))^2 / 2. The rest of the mass adds at most 1 - p.
    Arrays have shape (k, levels).
    """

    mass: Array
    variation: Array
    count: Array

    @classmethod
    def of(cls, parts: Parts, order: float, nodes: Rule) -> Decay:
        """The bound from values at the nodes; between nodes the second derivative of log rho bounds how far it bends.

        That derivative is at most 1 / s^2 + |a + 1| / 4 s^4 + 1 / width^2, since s^2 (log rho)' =
        -x - 1 + (a + 1) sigma(x) + s^2 (log g)', with sigma a logistic function of x / s^2.
        """
        s2, a = parts.noise**2, parts.power(order)
        curvature = (1 + (abs(a) + 1) / (4 * s2)) / s2 + parts.width**-2.0
        loose = np.exp(np.minimum(nodes.step**2 / 8 * curvature, 50.0))
        with np.errstate(over="ignore"):
            rho = np.exp(nodes.log_weight - nodes.log_slope + np.log(s2 / nodes.step))
        top = rho.max(axis=1, keepdims=True)
        level = (top * _LEVELS)[:, :, np.newaxis]
        cut = np.minimum(rho[:, np.newaxis, :], level)
        ends = cut[:, :, 0] + cut[:, :, -1]
        steps = np.abs(np.diff(cut, axis=2)).sum(axis=2)
        # On a cell of length h, log rho less its chord varies by at most D h^2 / 3 < 3 log(loose), D the bound on its
        # second derivative; if log rho crosses the level there, the chord adds an error of 2 log(loose) of the level.
        variation = steps + ends + 5 * loose * (loose - 1) * (cut.sum(axis=2) + steps)
        # The mass of a cell is at least its length times the smaller weight of its ends times the smaller share kept.
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.minimum(level / np.maximum(np.maximum(rho[:, :-1], rho[:, 1:])[:, np.newaxis, :], level), 1.0)
        weight = np.minimum(nodes.weight[:, :-1], nodes.weight[:, 1:])[:, np.newaxis, :]
        mass = np.clip(np.sum(weight * share, axis=2) / loose**2 * (1 - 1e-6) - nodes.error, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variation = variation / mass
        return cls(mass, np.where(np.isfinite(variation), variation, np.inf), parts.count)

    def log_bound(self, t: float) -> float:
        """The logarithm of a bound on |product of all f^count| at every frequency of at least `t`."""
        direct = self.variation / t
        doubled = np.sqrt(1 - 0.5 * (t / (math.sqrt(2) * self.variation + t)) ** 2)
        kept = self.mass * (1 - np.minimum(direct, doubled))
        return float(np.sum(self.count[:, 0] * np.log1p(-np.minimum(kept.max(axis=1), 1 - 1e-16))))


def spectrum(parts: Parts, nodes: Rule, spacing: float, size: int) -> tuple[ComplexArray, Array, float]:
    """The sum of count x log f_i(j spacing), j < size, a bound on its rounding, and the sum of count x error of f_i.

    For j = r b + c, e^(i t_j l) is the power for r b times the power for c. So few exponentials are needed, and the
    sums over nodes are products of matrices.
    """
    width = max(1, math.isqrt(size - 1) + 1)
    height = -(-size // width)
    values = np.zeros((len(parts), height, width), complex)
    chunk = max(16, _BLOCK // (width * len(parts)))
    for start in range(0, nodes.loss.shape[1], chunk):
        loss = nodes.loss[:, np.newaxis, start : start + chunk]
        inner = _powers(np.exp(1j * spacing * loss), width)
        outer = _powers(np.exp(1j * (spacing * width) * loss), height)
        outer *= nodes.weight[:, np.newaxis, start : start + chunk]
        values += outer @ inner.transpose(0, 2, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values.reshape(len(parts), -1)[:, :size])
    logs = np.where(np.isfinite(logs), logs, -1e6)
    count = parts.count[:, 0]
    total: ComplexArray = np.asarray(count @ logs, dtype=np.complex128)
    rounding = (8 + 2 * len(count)) * UNIT_ROUNDOFF * (count @ (4 + np.abs(logs)))
    errors = nodes.error + 8 * UNIT_ROUNDOFF * (width + height)
    return total, rounding, float(np.sum(parts.count * errors))


def _powers(base: ComplexArray, count: int) -> ComplexArray:
    """base^0, ..., base^(count - 1) along axis 1, by doubling."""
    result = np.ones((base.shape[0], count, base.shape[2]), complex)
    done, factor = 1, base
    while done < count:
        more = min(done, count - done)
        np.multiply(result[:, :more], factor, out=result[:, done : done + more])
        done += more
        factor = factor * factor
    return result


def estimate(parts: Parts, order: float) -> float:
    """The sum of count x log M(order), each to about 1e-4; infinite if that takes too many nodes."""
    need = 9.0
    nodes = node_count(parts, order, 0.0, need)
    if not float(nodes.max()) < _MOST_PLANNED:
        return math.inf
    if len(parts) <= _PLANNED_TOGETHER:
        return _estimate(parts, order, need, int(nodes.max()))
    by_size = np.array_split(np.argsort(nodes, kind="stable"), -(-len(parts) // _PLANNED_TOGETHER))
    return math.fsum(_estimate(parts[rows], order, need, int(nodes[rows].max())) for rows in by_size)


def _estimate(parts: Parts, order: float, need: float, nodes: int) -> float:
    s, a = parts.noise, parts.power(order)
    low, high = _range(parts, order, need)
    step = (high - low) / (nodes - 1)
    x = low + step * np.arange(nodes)
    with np.errstate(divide="ignore"):
        log_w = np.logaddexp(np.log1p(-parts.rate), np.log(parts.rate) + (2 * x - 1) / (2 * s**2))
    exponent = a * log_w - 0.5 * (x / s) ** 2 + _log_kept(parts, x)[0]
    peak = exponent.max(axis=1)
    total = np.exp(exponent - peak[:, np.newaxis]).sum(axis=1)
    return float(parts.count[:, 0] @ (peak + np.log(total * step[:, 0] / (s[:, 0] * math.sqrt(2 * math.pi)))))
