"""The characteristic function of the tilted privacy loss of Poisson-sampled Gaussians, with every error bounded.

Tilted by an order lambda, the loss l of one release has density p(x) e^(lambda l(x)) / M(lambda) over the outcomes,
with M(z) = E_P[e^(z l)]. In both directions that integrand is phi(x / s) W(x)^(a + i t), where W = 1 - q + q e^u,
u = (2 x - 1) / (2 s^2), and a = lambda + 1 (removal, l = log W) or -lambda (addition, l = -log W; +-t). It is analytic in
|Im x| < pi s^2, so the trapezoidal rule converges exponentially: a hundred nodes where a grid of losses needs
tens of thousands of points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.pair import UNIT_ROUNDOFF, Direction
from discreet.core.arrays import Array, ComplexArray

_ANGLES = np.linspace(0.05, 3.0, 60)
_LEVELS = np.exp2(-np.arange(10.0))
_MOST_PLANNED = 1500
_BLOCK = 2**17
"""Numbers in a temporary array: what fits in the cache."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Releases of one direction: rates in (0, 1], effective noise multipliers and counts, each of shape (k, 1)."""

    rate: Array
    noise: Array
    count: Array
    direction: Direction

    def __getitem__(self, rows: slice | Array) -> Parts:
        return Parts(self.rate[rows], self.noise[rows], self.count[rows], self.direction)

    def __len__(self) -> int:
        return len(self.rate)

    def power(self, order: float) -> float:
        """The real part a of the exponent of W."""
        return order + 1 if self.direction is Direction.REMOVAL else -order


@dataclass(frozen=True, slots=True)
class Rule:
    """Nodes for the integrals of each part: arrays of shape (k, n), and (k, 1) for what each part has one of.

    `weight` sums to 1 over the nodes. `log_moment` is log M(order); `error` bounds the error of M(order + i t) relative to
    M(order) for every |t| up to the `top` that the rule was made for.
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
    exponent = a * log_w - 0.5 * (x / s) ** 2
    peak = exponent.max(axis=1, keepdims=True)
    log_weight = exponent - peak
    weight = np.exp(log_weight)
    total = weight.sum(axis=1, keepdims=True)
    weight /= total
    scale = np.log(s * math.sqrt(2 * math.pi))
    log_moment = peak + np.log(total * step) - scale
    # Rounding of log W: of its larger term, and relative to what e^u adds to it.
    above = np.where(parts.rate < 1, log_w - log_rest, 1.0)
    loss_error = np.abs(log_w) + np.where(parts.rate < 1, -log_rest, 0.0) + above * (1 + np.abs(u) - log_rate)
    each = (abs(a) + top) * loss_error + 2 + (x / s) ** 2 + top * np.abs(log_w)
    rounding = 8 * UNIT_ROUNDOFF * (np.sum(weight * each, axis=1, keepdims=True) + np.abs(peak) + np.abs(scale) + 2)
    rounding += 4 * UNIT_ROUNDOFF * nodes
    # Past the ends the integrand falls by at least e^(-reach step / s) from node to node.
    ends = (weight[:, :1] + weight[:, -1:]) / -np.expm1(-step * _reach(need) / s)
    error = 2.2 * math.exp(-need) + 1.01 * ends + rounding
    loss = log_w if parts.direction is Direction.REMOVAL else -log_w
    return Rule(x, step, log_rate + u - log_w, loss, log_weight - np.log(total), weight, log_moment, error)


def node_count(parts: Parts, order: float, top: float, need: float) -> Array:
    """How many nodes each part needs for an error of 2 e^-need relative to M(order), for frequencies up to `top`.

    With step h the rule is off by at most 2 N / (e^(2 pi b / h) - 1) for any b < pi s^2, N a bound on the integral
    of the modulus over the lines |Im x| <= b (Trefethen and Weideman 2014, Theorem 5.1). With y = s^2 theta there,
    |phi| grows by e^(y^2 / 2 s^2), W^(i t) by e^(t theta), and W^a by cos(theta / 2)^a where a < 0, since
    W cos(theta / 2) <= |W(x + iy)| <= W(x).
    """
    s2 = parts.noise**2
    growth = s2 * _ANGLES**2 / 2 + top * _ANGLES + max(0.0, -parts.power(order)) * -np.log(np.cos(_ANGLES / 2))
    step = 2 * math.pi * s2 * np.max(_ANGLES / (need + growth), axis=1, keepdims=True)
    low, high = _range(parts, order, need)
    result: Array = np.ceil((high - low) / step)[:, 0] + 2
    return result


def _reach(need: float) -> float:
    return math.sqrt(2 * need) + 0.5


def _range(parts: Parts, order: float, need: float) -> tuple[Array, Array]:
    """Outcomes outside which the integrand falls off like a Gaussian."""
    a, reach = parts.power(order), _reach(need) * parts.noise
    return min(-1.0, a) - reach, max(0.0, a) + reach


def rules(
    parts: Parts, order: float, top: float, need: float, width: int = 1, finer: float = 1.0
) -> Iterator[tuple[Parts, Rule]]:
    """`rule` for batches of parts that need about as many nodes, each of at most `_BLOCK` / `width` numbers."""
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
        """From values at the nodes; between them log-densities bend by at most their greatest second derivative.

        s^2 (log rho)' = -x - 1 + (a + 1) sigma(x), with sigma logistic in x / s^2: at most three extrema.
        """
        s2, a = parts.noise**2, parts.power(order)
        bend = nodes.step**2 / (8 * s2)
        loose = np.exp(np.minimum(bend * (1 + (abs(a) + 1) / (4 * s2)), 50.0))
        with np.errstate(over="ignore"):
            rho = np.exp(nodes.log_weight - nodes.log_slope + np.log(s2 / nodes.step))
        top = rho.max(axis=1, keepdims=True)
        level = (top * _LEVELS)[:, :, np.newaxis]
        cut = np.minimum(rho[:, np.newaxis, :], level)
        ends = cut[:, :, 0] + cut[:, :, -1]
        variation = np.abs(np.diff(cut, axis=2)).sum(axis=2) + ends + 6 * (loose - 1) * level[:, :, 0]
        # On each cell the mass is at least its length times the smaller end's weight, times the smaller share kept.
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
    """sum over parts of count x log f_i(j spacing) for j < size, a bound on its rounding, and sum count x error of f_i.

    e^(i t_j l) is a product of two powers, for j = r b + c that of r b and that of c: few exponentials, and the
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
    rounding = (8 + 2 * len(count)) * UNIT_ROUNDOFF * (count @ (4 + np.abs(logs)))
    errors = nodes.error + 8 * UNIT_ROUNDOFF * (width + height)
    return count @ logs, rounding, float(np.sum(parts.count * errors))


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
    """The sum of count x log M(order), to about 1e-4 of each; infinite where that takes many nodes."""
    need = 9.0
    nodes = float(node_count(parts, order, 0.0, need).max())
    if not nodes < _MOST_PLANNED:
        return math.inf
    s, a = parts.noise, parts.power(order)
    low, high = _range(parts, order, need)
    step = (high - low) / (int(nodes) - 1)
    x = low + step * np.arange(int(nodes))
    with np.errstate(divide="ignore"):
        log_w = np.logaddexp(np.log1p(-parts.rate), np.log(parts.rate) + (2 * x - 1) / (2 * s**2))
    exponent = a * log_w - 0.5 * (x / s) ** 2
    peak = exponent.max(axis=1)
    total = np.exp(exponent - peak[:, np.newaxis]).sum(axis=1)
    return float(parts.count[:, 0] @ (peak + np.log(total * step[:, 0] / (s[:, 0] * math.sqrt(2 * math.pi)))))
