"""Zero-concentrated differential privacy (Bun and Steinke 2016): D_alpha <= rho alpha at every order alpha > 1.

rho is one number that adds up. It gains nothing from sampling (Yu et al. 2019, section IV-B2), so this file covers only
releases in which every unit takes part. `paper_figures` has the papers' figures for sampled releases.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

from discreet.accounting.bisection import bisect
from discreet.accounting.theories import rdp
from discreet.core import checks

_UP = 1 + 2.0**-48
_TINY = 2.0**-1074
"""The smallest positive number: a rho that underflows is rounded up to it before it is multiplied by a count."""


def gaussian(noise: float) -> float:
    """rho of a Gaussian release with effective noise multiplier `noise`: 1 / (2 s^2) (Proposition 1.6)."""
    return 0.5 / noise**2 * _UP + _TINY


def pure(epsilon: float) -> float:
    """rho of an epsilon-differentially private release, Laplace noise say: epsilon^2 / 2 (Proposition 1.4)."""
    return 0.5 * epsilon**2 * _UP + _TINY


def bounded_range(epsilon: float) -> float:
    """rho of a release whose loss has the range epsilon: epsilon^2 / 8 (Cesar and Rogers 2021, Lemma 3.2)."""
    return 0.125 * epsilon**2 * _UP + _TINY


def compose(rhos: Iterable[float]) -> float:
    """rho of all releases together: the sum (Lemma 1.7)."""
    return math.fsum(rhos) * _UP


def epsilon_loose(rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)): Proposition 1.3, the conversion that papers use."""
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * _UP


def epsilon(rho: float, delta: float) -> float:
    """The least epsilon over all orders: rho alpha converted by Canonne, Kamath, Steinke 2020, Proposition 12."""
    delta = checks.open_unit("delta", delta)
    if rho == 0:
        return 0.0
    if not math.isfinite(rho):
        return math.inf
    # The loose conversion is best at order 1 + sqrt(log(1/delta) / rho), the tight one at an order a little below.
    best = 1 + math.sqrt(-math.log(delta) / rho)
    orders = sorted(1 + (best - 1) * 1.07**step for step in range(-60, 12))
    tight, _ = rdp.epsilon(partial(rdp.gaussian, math.sqrt(0.5 / rho)), delta, orders=orders)
    return min(tight, epsilon_loose(rho, delta))


def rho_for(epsilon: float, delta: float) -> float:
    """The largest rho, rounded down, with `epsilon(rho, delta)` at most `epsilon`: a budget in zCDP. It is 0 if only
    rhos below 1e-300 have that."""
    target = checks.positive("epsilon", epsilon)
    low, high = rho_for_loose(target, delta), target
    return bisect(lambda rho: not _epsilon(rho, delta) <= target, low, high, relative=1e-9, absolute=1e-300)[0]


def rho_for_loose(epsilon: float, delta: float) -> float:
    """The largest rho whose `epsilon_loose` is within `epsilon`: (sqrt(eps + L) - sqrt(L))^2 with L = log(1/delta)."""
    epsilon = checks.positive("epsilon", epsilon)
    log = -math.log(checks.open_unit("delta", delta))
    return (epsilon / (math.sqrt(epsilon + log) + math.sqrt(log))) ** 2 * (1 - 2.0**-48)


_epsilon = epsilon  # the parameter of `rho_for` has the same name
