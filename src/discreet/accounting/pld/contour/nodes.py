"""Nodes for integrals over the outcomes of one release, with a bound on the error.

In both directions the integrand of M is phi(x / s) W(x)^a, where W = 1 - q + q e^u, u = (2 x - 1) / (2 s^2), and
a = z + 1 (removal, l = log W) or -z (addition, l = -log W). It is analytic in |Im x| < pi s^2, so the trapezoidal rule
converges exponentially: a hundred nodes do what takes tens of thousands of points on a grid of losses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.contour.sampled_parts import Parts, log_kept
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Direction
from discreet.core.array_types import Array

_ANGLES = np.geomspace(0.05, 2.0, 30)


@dataclass(frozen=True, slots=True)
class Rule:
    """Nodes for the integrals of each part: arrays of shape (k, n), or (k, 1) with one value per part.

    `weight` sums to 1 over the nodes. `log_moment` is log M(order), `error` a bound on its error. `turning` bounds the
    error of f(t) = M(order + i t) / M(order) for every |t| up to the `top` given to `rule`, if it is summed over the
    nodes without rounding. `log_slope` is log(s^2 |dl/dx|).
    """

    x: Array
    step: Array
    log_slope: Array
    loss: Array
    log_weight: Array
    weight: Array
    log_moment: Array
    error: Array
    turning: Array


@dataclass(frozen=True, slots=True)
class Integrand:
    """log W, its slope as in `Rule`, the logarithm of phi W^a g, and its rounding in units of eight roundings."""

    log_w: Array
    log_slope: Array
    log: Array
    rounding: Array

    @classmethod
    def at(cls, parts: Parts, power: float, top: float, x: Array) -> Integrand:
        """The integrand at outcomes of shape (k, n), for the exponent `power` of W and frequencies up to `top`."""
        s = parts.noise
        u = (2 * x - 1) / (2 * s**2)
        log_rate = np.log(parts.rate)
        with np.errstate(divide="ignore"):
            log_rest = np.log1p(-parts.rate)
        log_w = np.logaddexp(log_rest, log_rate + u)
        log_g, kept_error = log_kept(parts, x)
        square = (x / s) ** 2
        # Rounding of log W: that of its larger term, and that relative to the amount that e^u adds.
        above = np.where(parts.rate < 1, log_w - log_rest, 1.0)
        loss_error = np.abs(log_w) + np.where(parts.rate < 1, -log_rest, 0.0) + above * (1 + np.abs(u) - log_rate)
        each = (abs(power) + top) * loss_error + 2 + square + top * np.abs(log_w) + kept_error
        return cls(log_w, log_rate + u - log_w, power * log_w - 0.5 * square + log_g, each)


def rule(parts: Parts, order: float, top: float, need: float, nodes: int) -> Rule:
    """The trapezoidal rule with `nodes` nodes (at least `node_count` of them), for frequencies up to `top`."""
    s = parts.noise
    low, high = outcome_range(parts, order, need)
    step = (high - low) / (nodes - 1)
    x = low + step * np.arange(nodes)
    found = Integrand.at(parts, parts.power(order), top, x)
    peak = found.log.max(axis=1, keepdims=True)
    log_weight = found.log - peak
    weight = np.exp(log_weight)
    total = weight.sum(axis=1, keepdims=True)
    weight /= total
    scale = np.log(s * math.sqrt(2 * math.pi))
    log_moment = peak + np.log(total * step) - scale
    size = np.sum(weight * found.rounding, axis=1, keepdims=True) + np.abs(peak) + np.abs(scale) + 2
    summing = 4 * UNIT_ROUNDOFF * nodes
    rounding = 8 * UNIT_ROUNDOFF * size + summing
    # Beyond the ends the integrand falls from node to node by e^(-reach step / s) or more (see `outcome_range`).
    ends = (1.01 * weight[:, :1] + weight[:, -1:]) / -np.expm1(-step * decay_rate(need) / s)
    cut = 2.2 * math.exp(-need) + 1.01 * ends
    loss = found.log_w if parts.direction is Direction.REMOVAL else -found.log_w
    turning = 2 * cut + turned(weight, loss, 8 * UNIT_ROUNDOFF * found.rounding + summing, top)
    return Rule(x, step, found.log_slope, loss, log_weight - np.log(total), weight, log_moment, cut + rounding, turning)


def turned(weight: Array, loss: Array, rounding: Array, top: float) -> Array:
    """A bound on the error of f(t) from weights with the relative error `rounding` each, for |t| up to `top`.

    Weights are normed by their own sum, so an error that all of them share does no harm:
    f(t) - 1 = sum of w (e^(i t l) - 1), and |e^(i t l) - 1| <= min(2, t |l|).
    """
    far = weight * np.minimum(2.0, top * np.abs(loss))
    mean = np.sum(weight * rounding, axis=1, keepdims=True)
    result: Array = np.sum(far * (rounding + mean), axis=1, keepdims=True) + 4 * UNIT_ROUNDOFF
    return result


def node_count(parts: Parts, order: float | Array, top: float, need: float) -> Array:
    """The number of nodes each part needs for an error of 2 e^-need relative to M(order), for frequencies up to `top`.

    With step h the error of the rule is at most 2 N / (e^(2 pi b / h) - 1) for any b < pi s^2, where N bounds the
    integral of the modulus on each line |Im x| <= b (Trefethen and Weideman 2014, Theorem 5.1). There, with
    y = s^2 theta, |phi| grows by e^(y^2 / 2 s^2), g by e^(y^2 / 2 width^2), W^(i t) by e^(t theta), and W^a by
    cos(theta / 2)^a if a < 0, since W cos(theta / 2) <= |W(x + iy)| <= W(x). For orders of shape (m, 1, 1) the result
    has shape (m, k), else (k,).
    """
    s2, a = parts.noise**2, parts.power(order)
    bend = s2 * (1 + s2 / parts.width**2)
    angles = np.minimum(np.minimum(3.0, math.sqrt(2 * need) / np.sqrt(bend)) * _ANGLES, 3.0)
    growth = bend * angles**2 / 2 + top * angles + np.maximum(0.0, -a) * -np.log(np.cos(angles / 2))
    step = 2 * math.pi * s2 * np.max(angles / (need + growth), axis=-1, keepdims=True)
    low, high = outcome_range(parts, order, need)
    result: Array = np.ceil((high - low) / step)[..., 0] + 2
    return result


def decay_rate(need: float) -> float:
    """The rate of decay of an integrand beyond `outcome_range`, for outcomes in standard deviations."""
    return math.sqrt(2 * need) + 0.5


def outcome_range(parts: Parts, order: float | Array, need: float) -> tuple[Array, Array]:
    """Outcomes outside which the integrand falls at least like e^(-reach |x| / s).

    Its logarithm has the derivative (-x + a sigma) / s^2 + (log g)' with sigma in (0, 1). On the left (log g)' is
    negligible, since the cut is more than sixteen widths away; on the right it is below -(x - cut) / width^2.
    """
    a, reach = parts.power(order), decay_rate(need)
    high = np.maximum(0.0, a) + reach * parts.noise
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isfinite(parts.cut), (parts.width / parts.noise) ** 2, 0.0)
        cut_off = parts.cut + parts.width * reach + np.maximum(a - parts.cut, 0.0) * ratio
    return np.minimum(-1.0, a) - reach * parts.noise, np.where(np.isfinite(parts.cut), np.minimum(high, cut_off), high)
