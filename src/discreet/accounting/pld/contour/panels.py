"""Nodes for one release by Gauss-Legendre panels, dense only where its loss turns fast.

At the frequency t the factor W^(i t) of an integrand turns at the rate t dl/dx, which rises with the outcome. The
trapezoidal rule of `nodes` has the same step everywhere; where rates are low and frequencies high, panels take a
hundredth of its nodes. And they may begin anywhere, which the curve of a batch of fixed size needs
(`fixed_size_pair`): of each direction it keeps the outcomes x > 1/2, so that

    M(z) = integral over x > 1/2 of phi(x / s) (W^(z + 1) + W^-z), plus the mass at loss 0.

Error of a panel with centre c, half-length h and n nodes, for an integrand bounded by F in the ellipse with foci c +- h
and half-axes h (r +- 1 / r) / 2: at most (64 / 15) h F r^(-2 n) / (1 - r^-2) (Trefethen 2019, "Approximation theory and
approximation practice", Theorem 19.3). A panel whose bound is too large is halved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from discreet.accounting.pld.contour.nodes import Integrand, Rule, decay_rate, outcome_range, turned
from discreet.accounting.pld.contour.sampled_parts import Parts, log_kept
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Direction
from discreet.core.array_types import Array

NODES = 32
"""In a panel."""

_AT, _WEIGHTS = np.polynomial.legendre.leggauss(NODES)
_WEIGHT_ERROR = 2.0**-43
"""A bound on the relative error of each weight, as numpy computes them; that of a node is a rounding or two."""

_ELLIPSES = np.geomspace(1.05, 20.0, 24)
_LARGEST_ANGLE = 1.5
_FIRST, _MOST = 8, 2**12
"""Panels to begin with, and the most of them."""

_EVEN, _EVEN_NEED = 401, 20.0


@dataclass(frozen=True, slots=True)
class Panels:
    """Centres and half-lengths, each of shape (p,)."""

    centre: Array
    half: Array

    def __len__(self) -> int:
        return len(self.centre)


def panels(part: Parts, order: float, top: float, need: float, nodes: float = math.inf) -> Panels | None:
    """Panels for one part, with an error of e^-need relative to M(order) up to the frequency `top`; None if too many,
    or if they have `nodes` nodes or more.

    M(order) is at least (1 - the mass set aside)^(1 + |a|), by Jensen's inequality (`part.symmetric`: 1 - that mass,
    as the mean loss is not negative).
    """
    low, high = _ends(part, order, need)
    edges = np.linspace(low, high, _FIRST + 1)
    found = Panels((edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2)
    least = (2 + order) * math.log1p(-min(float(part.aside_each[0, 0]), 0.5))
    aim = -need + least + math.log(2 / (high - low)) - 0.01
    done: list[Panels] = []
    total = 0
    while len(found):
        enough = _log_error(part, order, top, found) <= aim + np.log(found.half)
        done.append(Panels(found.centre[enough], found.half[enough]))
        total += len(done[-1])
        centre, half = found.centre[~enough], found.half[~enough] / 2
        found = Panels(np.concatenate((centre - half, centre + half)), np.concatenate((half, half)))
        if total + len(found) > _MOST or NODES * (total + len(found)) >= nodes:
            return None
    return Panels(np.concatenate([one.centre for one in done]), np.concatenate([one.half for one in done]))


def panel_rule(part: Parts, order: float, top: float, need: float, chosen: Panels) -> Rule:
    """The nodes of one part on the panels chosen for it, and on its mass at loss 0 if it is `symmetric`."""
    x = (chosen.centre[:, np.newaxis] + chosen.half[:, np.newaxis] * _AT).reshape(1, -1)
    log_width = np.log(np.outer(chosen.half, _WEIGHTS)).ravel() - _log_scale(part)
    losses, logs, errors = [], [], []
    for power, sign in _integrals(part, order):
        found = Integrand.at(part, power, top, x)
        losses.append(sign * found.log_w[0])
        logs.append(found.log[0] + log_width)
        errors.append(found.rounding[0])
    if part.symmetric:
        losses, errors = [*losses, np.zeros(1)], [*errors, np.full(1, 4.0)]
        logs.append(np.array([math.log(max(_level(part), 1e-300))]))
    log_weight = np.concatenate(logs)
    peak = float(log_weight.max())
    weight = np.exp(log_weight - peak)
    total = math.fsum(weight)
    weight /= total
    log_moment = peak + math.log(total)
    # Four times the roundings of `rule`, for nodes that are rounded as well.
    rounding = 32 * UNIT_ROUNDOFF * (np.concatenate(errors) + abs(peak) + abs(_log_scale(part)) + 2) + _WEIGHT_ERROR
    cut = 2.2 * math.exp(-need) + 1.01 * _beyond(part, order, need, log_moment)
    values = (np.concatenate(losses), log_weight - log_moment, weight, rounding)
    loss, relative, weight, rounding = (value[np.newaxis] for value in values)
    turning = 2 * cut + turned(weight, loss, rounding, top)
    error = cut + np.sum(weight * rounding, axis=1, keepdims=True)
    none = np.zeros((1, 1))
    return Rule(x, none, none, loss, relative, weight, np.array([[log_moment]]), error, turning)


def halves(part: Parts, order: float, nodes: Rule) -> list[tuple[float, Rule]]:
    """Even nodes x > 1/2 of the two integrals of a `symmetric` part, each with its exponent of W.

    Weights are relative to M(order), as the rule `nodes` knows it.
    """
    low, high = _ends(part, order, _EVEN_NEED)
    step = np.array([[(high - low) / (_EVEN - 1)]])
    x = low + step * np.arange(_EVEN)
    found = []
    for power, sign in _integrals(part, order):
        one = Integrand.at(part, power, 0.0, x)
        log_weight = one.log + np.log(step) - _log_scale(part) - nodes.log_moment
        loss = sign * one.log_w
        values = (log_weight, np.exp(log_weight), nodes.log_moment, nodes.error, nodes.turning)
        rule = Rule(x, step, one.log_slope, loss, *values)
        found.append((power, rule))
    return found


def plain_moment(parts: Parts, order: float) -> float:
    """About the sum of count x log M(order) of `symmetric` parts, for planning, by Simpson's rule."""
    total = 0.0
    for part in (parts[np.array([row])] for row in range(len(parts))):
        low, high = _ends(part, order, _EVEN_NEED)
        x = np.linspace(low, high, _EVEN)[np.newaxis]
        weights = np.where(np.arange(_EVEN) % 2 == 1, 4.0, 2.0) * (high - low) / (3 * (_EVEN - 1))
        weights[[0, -1]] /= 2
        logs = np.concatenate([Integrand.at(part, power, 0.0, x).log[0] for power, _ in _integrals(part, order)])
        peak = max(float(logs.max()), 0.0)
        mass = float(np.tile(weights, 2) @ np.exp(logs - peak)) * math.exp(-_log_scale(part))
        total += float(part.count[0, 0]) * (peak + math.log(mass + _level(part) * math.exp(-peak)))
    return total


def _integrals(part: Parts, order: float) -> Sequence[tuple[float, int]]:
    """The exponents a of W in the integrals of M, each with the sign of the loss relative to log W."""
    if part.symmetric:
        return ((order + 1, 1), (-order, -1))
    return ((part.power(order), 1 if part.direction is Direction.REMOVAL else -1),)


def _ends(part: Parts, order: float, need: float) -> tuple[float, float]:
    low, high = (float(np.max(end)) for end in outcome_range(part, order, need))
    return (0.5 if part.symmetric else low), max(high, 1.0)


def _log_scale(part: Parts) -> float:
    return math.log(float(part.noise[0, 0]) * math.sqrt(2 * math.pi))


def _level(part: Parts) -> float:
    """The mass at loss 0: see `fixed_size_pair`."""
    return (1 - float(part.rate[0, 0])) * float(erf(1 / (math.sqrt(8) * float(part.noise[0, 0]))))


def _beyond(part: Parts, order: float, need: float, log_moment: float) -> float:
    """The integrals beyond the ends, relative to M(order): integrands fall there at `decay_rate` / s or more."""
    low, high = _ends(part, order, need)
    ends = np.array([[high]] if part.symmetric else [[low, high]])
    total = sum(
        float(np.exp(Integrand.at(part, a, 0.0, ends).log - log_moment).sum()) for a, _ in _integrals(part, order)
    )
    return total / (math.sqrt(2 * math.pi) * decay_rate(need))


def _log_error(part: Parts, order: float, top: float, chosen: Panels) -> Array:
    """The logarithm of a bound on the error of each panel, shape (p,), by the best of a few ellipses.

    In an ellipse |phi|, g and W^a grow as `nodes.node_count` says, with theta = y / s^2. And
    |W^(i t)| = e^(-t arg W), where |arg W| is at most theta, and for theta < pi / 2 at most r theta with
    r = q e^u / (1 - q): tan(arg W) = r sin(theta) / (1 + r cos(theta)). So a small loss turns little.
    """
    s, q = float(part.noise[0, 0]), float(part.rate[0, 0])
    centre, half = chosen.centre[:, np.newaxis], chosen.half[:, np.newaxis]
    y = half * (_ELLIPSES - 1 / _ELLIPSES) / 2
    reach = half * (_ELLIPSES + 1 / _ELLIPSES) / 2
    left, right, angle = centre - reach, centre + reach, y / s**2
    nearest = np.where((left < 0) & (right > 0), 0.0, np.minimum(np.abs(left), np.abs(right)))
    with np.errstate(divide="ignore"):
        log_rest, log_ratio = np.log1p(-q), math.log(q) - np.log1p(-q)
    lowest, highest = ((2 * end - 1) / (2 * s**2) for end in (left, right))
    turning = top * angle * np.exp(np.minimum(highest + log_ratio, 0.0))
    common = (y**2 - nearest**2) / (2 * s**2) + (y / float(part.width[0, 0])) ** 2 / 2 + turning
    common = common + log_kept(part, left)[0]
    worst = np.full_like(common, -np.inf)
    for power, _ in _integrals(part, order):
        log_w = np.logaddexp(log_rest, math.log(q) + (highest if power > 0 else lowest))
        grown = power * log_w + max(0.0, -power) * -np.log(np.cos(np.minimum(angle, 3.0) / 2))
        worst = np.logaddexp(worst, common + grown)
    bound = worst - 2 * NODES * np.log(_ELLIPSES) - np.log1p(-(_ELLIPSES**-2.0))
    least: Array = np.min(np.where(angle <= _LARGEST_ANGLE, bound, np.inf), axis=1)
    result: Array = least + np.log(64 / 15 * chosen.half) - _log_scale(part)
    return result
