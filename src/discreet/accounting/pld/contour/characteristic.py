"""The characteristic function of the tilted privacy loss of Poisson-sampled Gaussians, with every error bounded.

Tilted by an order lambda, the loss l of one release has density p(x) e^(lambda l(x)) / M(lambda) over the outcomes,
M(z) = E_P[e^(z l)].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.contour.chosen_rules import BLOCK
from discreet.accounting.pld.contour.nodes import Rule, node_count, outcome_range
from discreet.accounting.pld.contour.panels import halves, plain_moment
from discreet.accounting.pld.contour.sampled_parts import Parts, log_kept
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF
from discreet.core.array_types import Array, ComplexArray

_LEVELS = 8.0 ** -np.arange(11)
_SUMMED = 256
"""The most terms that are added in a row, so that their rounding stays small."""

_LITTLE = 0.25
"""Losses turn little if |f - 1| is less at all frequencies."""

_MOST_PLANNED, _PLANNED_TOGETHER, _PLANNING_NEED = 1500, 24, 9.0


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
        """The bound from values at even nodes: those of the rule, or on each side of loss 0 if `parts.symmetric`."""
        sides = halves(parts, order, nodes) if parts.symmetric else [(parts.power(order), nodes)]
        densities = [_density(parts, one) for _, one in sides]
        top = np.max([density.max(axis=1, keepdims=True) for density in densities], axis=0)
        level = (top * _LEVELS)[:, :, np.newaxis]
        cuts = [_cut(parts, *side, rho, level) for side, rho in zip(sides, densities, strict=True)]
        mass = np.clip(sum(one[0] for one in cuts) - nodes.error, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variation = sum(one[1] for one in cuts) / mass
        return cls(mass, np.where(np.isfinite(variation), variation, np.inf), parts.count)

    def log_bounds(self, t: Array) -> Array:
        """Logarithms of bounds on |product of all f^count| at every frequency of at least each of `t`, shape (m,)."""
        mass, variation = self.mass[:, :, np.newaxis], self.variation[:, :, np.newaxis]
        direct = variation / t
        doubled = np.sqrt(1 - 0.5 * (t / (math.sqrt(2) * variation + t)) ** 2)
        kept = mass * (1 - np.minimum(direct, doubled))
        result: Array = self.count[:, 0] @ np.log1p(-np.minimum(kept.max(axis=1), 1 - 1e-16))
        return result


def _density(parts: Parts, nodes: Rule) -> Array:
    """The density of the tilted loss at even nodes."""
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(nodes.log_weight - nodes.log_slope + np.log(parts.noise**2 / nodes.step)))


def _cut(parts: Parts, power: float, nodes: Rule, rho: Array, level: Array) -> tuple[Array, Array]:
    """A lower bound on the mass of a density that is cut off at each level, and an upper bound on its variation.

    Between nodes the second derivative of log rho bounds how far it bends. It is at most
    1 / s^2 + |a + 1| / 4 s^4 + 1 / width^2, since s^2 (log rho)' = -x - 1 + (a + 1) sigma(x) + s^2 (log g)', with
    sigma a logistic function of x / s^2.
    """
    s2 = parts.noise**2
    curvature = (1 + (abs(power) + 1) / (4 * s2)) / s2 + parts.width**-2.0
    loose = np.exp(np.minimum(nodes.step**2 / 8 * curvature, 50.0))
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
    return np.sum(weight * share, axis=2) / loose**2 * (1 - 1e-6), variation


def spectrum(parts: Parts, nodes: Rule, spacing: float, size: int) -> tuple[ComplexArray, Array, float]:
    """The sum of count x log f_i(j spacing), j < size, a bound on its rounding, and the sum of count x error of f_i.

    For j = r b + c, e^(i t_j l) is the power for r b times the power for c. So few exponentials are needed, and the
    sums over nodes are products of matrices. Where losses turn little, f - 1 is summed instead, from e^(i t l) - 1:
    then rounding is relative to that. A power j of e^(i t l) is the product of j factors, and so are j errors.
    """
    width = max(1, math.isqrt(size - 1) + 1)
    height = -(-size // width)
    far = float(np.max(np.sum(nodes.weight * np.minimum(2.0, size * spacing * np.abs(nodes.loss)), axis=1)))
    little = far < _LITTLE
    chunk = min(max(16, BLOCK // (width * len(parts))), _SUMMED)
    values = np.zeros((len(parts), height, width), complex)
    for start in range(0, nodes.loss.shape[1], chunk):
        loss = nodes.loss[:, np.newaxis, start : start + chunk]
        weight = nodes.weight[:, np.newaxis, start : start + chunk]
        if little:
            inner, outer = _less_one(spacing * loss, width), _less_one(spacing * width * loss, height)
            values += np.sum(outer * weight, axis=2, keepdims=True)
            outer += 1
        else:
            inner, outer = (
                _powers(np.exp(1j * spacing * loss), width),
                _powers(np.exp(1j * (spacing * width) * loss), height),
            )
        outer *= weight
        values += outer @ inner.transpose(0, 2, 1)
    values = values.reshape(len(parts), -1)[:, :size]
    logs = _log_one_plus(values) if little else _log(values)
    count = parts.count[:, 0]
    total: ComplexArray = np.asarray(count @ logs, dtype=np.complex128)
    rounding = (8 + 2 * len(count)) * UNIT_ROUNDOFF * (count @ ((0 if little else 4) + np.abs(logs)))
    summing = width + height + chunk + nodes.loss.shape[1] / chunk
    errors = nodes.turning + 8 * UNIT_ROUNDOFF * summing * (2 * far if little else 1)
    return total, rounding, float(np.sum(parts.count * errors))


def _log(values: ComplexArray) -> ComplexArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
    return np.where(np.isfinite(logs), logs, -1e6)


def _log_one_plus(values: ComplexArray) -> ComplexArray:
    """log(1 + value), for values of modulus below 1, with an error relative to the value."""
    real, imaginary = values.real, values.imag
    size = np.log1p(real * (2 + real) + imaginary**2) / 2
    return np.asarray(size + 1j * np.arctan2(imaginary, 1 + real))


def _powers(base: ComplexArray, count: int) -> ComplexArray:
    """base^0, ..., base^(count - 1) along axis 1, by doubling."""
    result = np.empty((base.shape[0], count, base.shape[2]), complex)
    result[:, 0] = 1
    done, factor = 1, base
    while done < count:
        more = min(done, count - done)
        np.multiply(result[:, :more], factor, out=result[:, done : done + more])
        done += more
        factor = factor * factor
    return result


def _less_one(angle: Array, count: int) -> ComplexArray:
    """e^(i j angle) - 1 for j < count along axis 1, by doubling: e_(a + b) = e_a + e_b + e_a e_b.

    Errors are relative to j angle, since |1 + e_a| = 1 does not magnify them.
    """
    result = np.empty((angle.shape[0], count, angle.shape[2]), complex)
    result[:, 0] = 0
    done, factor = 1, np.asarray(-2 * np.sin(angle / 2) ** 2 + 1j * np.sin(angle))
    while done < count:
        more = min(done, count - done)
        np.multiply(result[:, :more], 1 + factor, out=result[:, done : done + more])
        result[:, done : done + more] += factor
        done += more
        factor = factor * (2 + factor)
    return result


def estimates(parts: Parts, orders: Array) -> Array:
    """The sum of count x log M(order), each to about 1e-4, at each order; infinite where it takes too many nodes."""
    if parts.symmetric:
        return np.array([plain_moment(parts, float(order)) for order in orders])
    nodes = node_count(parts, orders[:, np.newaxis, np.newaxis], 0.0, _PLANNING_NEED)
    result = np.where(nodes.max(axis=1) < _MOST_PLANNED, 0.0, np.inf)
    for rows in np.array_split(np.argsort(nodes.max(axis=0), kind="stable"), -(-len(parts) // _PLANNED_TOGETHER)):
        group, most = parts[rows], nodes[:, rows].max(axis=1)
        waiting = np.flatnonzero(np.isfinite(result))
        waiting = waiting[np.argsort(most[waiting])[::-1]]
        while len(waiting):
            size = int(most[waiting[0]])
            here = waiting[: max(1, BLOCK // (size * len(rows)))]
            here = here[most[here] > 0.5 * size - 8]
            result[here] += _estimates(group, orders[here, np.newaxis, np.newaxis], size)
            waiting = waiting[len(here) :]
    return result


def _estimates(parts: Parts, order: Array, nodes: int) -> Array:
    s = parts.noise
    low, high = outcome_range(parts, order, _PLANNING_NEED)
    step = (high - low) / (nodes - 1)
    x = low + step * np.arange(nodes)
    with np.errstate(divide="ignore"):
        log_w = np.logaddexp(np.log1p(-parts.rate), np.log(parts.rate) + (2 * x - 1) / (2 * s**2))
    exponent = parts.power(order) * log_w - 0.5 * (x / s) ** 2 + log_kept(parts, x)[0]
    peak = exponent.max(axis=-1, keepdims=True)
    total = np.exp(exponent - peak).sum(axis=-1)
    logs = peak[..., 0] + np.log(total * (step / (s * math.sqrt(2 * math.pi)))[..., 0])
    result: Array = logs @ parts.count[:, 0]
    return result
