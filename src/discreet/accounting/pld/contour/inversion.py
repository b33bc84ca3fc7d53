"""Epsilon from the characteristic function of the composed loss, by an inversion with every error bounded.

For lambda > 0, f(eps) = e^(lambda eps) delta(eps) has the Fourier transform F(t) = M(z) / (z (z + 1)), where
z = lambda + i t and M(z) = E_P[e^(z L)] is a product over all releases. By Poisson's summation formula

    (1 / w) sum over j of F(2 pi j / w) e^(-2 pi i j eps / w) = sum over n of f(eps + n w)

and all terms on the right are positive: the left side bounds f from above whatever w is, and from below once the
terms n != 0 are bounded (by delta <= 1 on one side, by Chernoff's inequality on the other). The sum over j is cut off
where a bound on |M| makes the rest negligible (`characteristic.Decay`). Few frequencies and few nodes suffice, with far
less error than a grid. (Zhu, Dong, Wang 2022 account by characteristic functions; Alghamdi et al. 2023 put the contour
through the saddle.) If losses are so rare and large that this takes too long, `epsilon_interval` uses the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.accounting.pld.contour.characteristic import spectrum
from discreet.accounting.pld.contour.chosen_rules import rules
from discreet.accounting.pld.contour.inversion_plan import Look, Plan, Sums, planned
from discreet.accounting.pld.contour.sampled_parts import Parts
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Direction
from discreet.core.array_types import ComplexArray

_SET_ASIDE = (1e-4, 1e-3, 1e-2)
"""Shares of delta that are given up to set rare, large losses aside, tried in turn."""


def epsilon_bounds(
    parts: Parts, delta: float, tolerance: Callable[[float], float], enough: float = 0.0
) -> tuple[float, float]:
    """Lower and upper bound on the smallest epsilon >= 0 whose delta is at most `delta`, in one direction.

    `tolerance` only says which errors are small enough. An upper bound of at most `enough` will do, without a lower
    one: Chernoff's is tried first. (0, infinity) if this method does not work.
    """
    lower, upper = 0.0, math.inf
    shares = (0.0, *_SET_ASIDE) if parts.direction is Direction.REMOVAL else (0.0,)
    for share in shares:
        try:
            with np.errstate(all="ignore"):  # a NaN fails every comparison that admits a bound
                some = parts.without(share * delta) if share else parts
                look = Look.at(some, delta)
                if not share and (ceiling := look.ceiling(parts, delta, enough)) <= enough:
                    return 0.0, ceiling
                found = _bounds(some, look, delta, tolerance, far=share > 0 or len(shares) == 1)
        except (ArithmeticError, ValueError):
            continue
        lower, upper = max(lower, float(found[0])), min(upper, float(found[1]))
        if upper <= lower + tolerance(lower):
            break
    return lower, upper


def _bounds(
    parts: Parts, look: Look, delta: float, tolerance: Callable[[float], float], *, far: bool = True
) -> tuple[float, float]:
    """The bounds for `parts` with outcomes set aside: these count as no loss below, as an infinite loss above."""
    plan = planned(parts, look, delta, tolerance, far=far)
    inversion = _invert(parts, plan) if plan is not None else None
    return inversion.crossings(delta, parts.aside) if inversion is not None else (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class _Inversion:
    """The terms of the sum over frequencies, relative to M(order), and bounds on the errors.

    `alias` is log M(alias_order) - log M(order), rounded up.
    """

    order: float
    alias_order: float
    period: float
    log_moment: float
    moment_error: float
    terms: ComplexArray
    error: float
    alias: float
    start: float
    """A first guess of epsilon."""

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Lower and upper bound on log delta(epsilon); (-inf, inf) if nothing is proved."""
        phases = np.exp(-2j * math.pi / self.period * epsilon * np.arange(len(self.terms)))
        middle = float((self.terms @ phases).real)
        size = float(np.abs(self.terms).sum())
        error = self.error + 8 * UNIT_ROUNDOFF * size * len(self.terms) * (1 + 8 * abs(epsilon) / self.period)
        shift = self.log_moment - self.order * epsilon
        rounding = self.moment_error + 16 * UNIT_ROUNDOFF * (abs(self.log_moment) + self.order * abs(epsilon) + 1)
        step = self.alias_order - self.order
        left = math.exp(min(-shift - self.order * self.period, 700.0)) / -math.expm1(-self.order * self.period)
        right = math.exp(min(self.alias - step * (epsilon + self.period), 700.0)) / -math.expm1(-step * self.period)
        low, high = middle - error - 1.001 * (left + right), middle + error
        return (
            math.log(low) + shift - rounding if low > 0 else -math.inf,
            math.log(high) + shift + rounding if 0 < high < math.inf else math.inf,
        )

    def crossings(self, delta: float, aside: float) -> tuple[float, float]:
        """Epsilons at which delta is proved to be above `delta`, and at most `delta` even with the mass set `aside`.

        0 and infinity if there is no proof.
        """
        if not aside < delta:
            return 0.0, math.inf
        most, least = math.log(delta - aside), math.log(delta)
        upper = _crossing(lambda x: self.log_delta(x)[1] - most, self.start, self.order)
        if not upper < math.inf:
            return 0.0, math.inf
        lower = -_crossing(lambda x: least - self.log_delta(-x)[0], -upper, self.order)
        return max(0.0, lower), max(0.0, upper)


def _crossing(function: Callable[[float], float], start: float, slope: float) -> float:
    """A point where a falling `function` is at most 0, close above its root; infinite if none is found.

    It is found by secants, which start with the slope -`slope`.
    """
    x, y = start, function(start)
    good = math.inf
    for _ in range(40):
        if y <= 0:
            good = min(good, x)
        step = y / slope
        if abs(step) <= 1e-10 * (1 + abs(x)) and y <= 0:
            break
        new = x + step + 1e-11 * (1 + abs(x))
        value = function(new)
        if not math.isfinite(value) or new == x:
            break
        slope = min(max((y - value) / (new - x), 0.2 * slope), 5 * slope)
        x, y = new, value
    return good


def _invert(parts: Parts, plan: Plan) -> _Inversion | None:
    spacing = 2 * math.pi / plan.period
    logs, rounding, errors = np.zeros(plan.size, complex), np.zeros(plan.size), 0.0
    log_moment = moment_error = 0.0
    width = max(1, math.isqrt(plan.size))
    for batch, nodes in rules(parts, plan.order, plan.top, plan.need, width):
        more = spectrum(batch, nodes, spacing, plan.size)
        logs, rounding, errors = logs + more[0], rounding + more[1], errors + more[2]
        log_moment += float(np.sum(batch.count * nodes.log_moment))
        relative = nodes.error + 4 * len(parts) * UNIT_ROUNDOFF * np.abs(nodes.log_moment)
        moment_error += 1.01 * float(np.sum(batch.count * relative))
    alias = Sums.of(parts, plan.alias_order, math.log(float(parts.count.sum())) + 6, moment_only=True)
    if alias is None or not (errors < 0.1 and moment_error < 0.1 and alias.error < 0.5):
        return None
    z = plan.order + 1j * spacing * np.arange(plan.size)
    kernel = np.where(np.arange(plan.size) > 0, 2.0, 1.0) / (plan.period * z * (z + 1))
    values: ComplexArray = np.exp(logs)
    terms: ComplexArray = np.asarray(kernel * values, dtype=np.complex128)
    error = math.expm1(1.2 * errors) * float(np.abs(kernel).sum())
    error += float(np.abs(terms) @ np.expm1(1.01 * rounding))
    error += plan.cut * math.exp(errors) * 1.001 + 16 * UNIT_ROUNDOFF * float(np.abs(kernel).sum())
    rise = alias.log_moment + 2 * alias.error - log_moment + moment_error
    moments = (log_moment, moment_error)
    return _Inversion(plan.order, plan.alias_order, plan.period, *moments, terms, error, rise, plan.epsilon)
