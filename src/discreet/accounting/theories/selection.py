"""The cost of a search that runs K trials, K secret, and releases only the best.

Let f(x) = E[x^K], and Q, Q' one trial on neighbours. The best of K is y with probability
integral of f' over [Q(worse than y), Q(at most y)], so all theorems bound f'(x) / f'(x'), where x and x' are the
probabilities, on neighbours, that a trial is worse than some outcome.

| law of K                        | Rényi                                      | privacy profile        |
|---------------------------------|--------------------------------------------|------------------------|
| truncated negative binomial     | Papernot and Steinke 2022, Theorem 2       | `epsilon`, `log_ratio` |
| Poisson                         | the same, Theorem 6                        | the same               |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from discreet.accounting.theories import rdp
from discreet.core.array_types import Array
from discreet.core.trials import NegativeBinomialTrials, Trials

Profile = Callable[[float], float]
"""delta -> epsilon of one trial at that delta, rounded up."""

_UP = 1 + 2.0**-44
_HALVINGS = 12
_NEAR_ZERO = 1e-3
_SMALLEST_DELTA = 1e-15
_LARGEST_DELTA = 0.999


def rdp_curve(trial: rdp.Curve, trials: Trials) -> rdp.Curve:
    """The Rényi curve of the search from that of one trial.

    Negative binomial, with any second order b: D(a) + (1 + eta) ((1 - 1/b) D(b) + log(1/gamma) / b) +
    log E[K] / (a - 1). Poisson, with delta that of one trial at epsilon = log(a / (a - 1)): D(a) + E[K] delta +
    log E[K] / (a - 1) as printed, which bounds the part of the moment with K >= 1. K = 0 adds e^-E[K] to the
    moment. Without that the bound is false for small E[K], so here it is log(e^((a - 1) printed) + e^-E[K]) / (a - 1).
    """
    hats = np.asarray(rdp.ORDERS)
    known: list[Array] = []

    def at_hats(_orders: Sequence[float]) -> Array:
        if not known:
            known.append(trial(rdp.ORDERS))
        return known[0]

    def search(orders: Sequence[float]) -> Array:
        order = np.asarray(orders, dtype=np.float64)
        mean = np.log(trials.mean) / (order - 1)
        if isinstance(trials, NegativeBinomialTrials):
            more = (1 - 1 / hats) * at_hats(rdp.ORDERS) - math.log(trials.success) / hats
            surplus = np.full(len(order), (1 + trials.shape) * float(np.min(np.where(np.isnan(more), np.inf, more))))
        else:
            deltas = [rdp.delta_upper(at_hats, math.log(a / (a - 1)) * (1 - 2.0**-50)) for a in order]
            surplus = trials.mean * np.array(deltas)
        result: Array = (trial(orders) + surplus) * rdp.OUTWARD + mean + 1e-12 * np.abs(mean)
        if not isinstance(trials, NegativeBinomialTrials):
            result = np.logaddexp((order - 1) * result, -trials.mean) / (order - 1) * rdp.OUTWARD
        return result

    return search


def epsilon(trial: Profile, trials: Trials, delta: float) -> float:
    """The epsilon of the search at `delta`, from the privacy profile of one trial.

    f' <= f'(1) = E[K], so the search has delta E[K] delta_Q(eps) at epsilon eps + `log_ratio`. The idea is that of
    Koskela, Redberg, Wang 2024. For pure trials this gives less than Liu and Talwar's 3 epsilon (shape 1) and
    Papernot and Steinke's (2 + eta) epsilon.
    """
    here = trial(min(delta / trials.mean * (1 - 2.0**-50), _LARGEST_DELTA))
    return (here + log_ratio(trial, trials)) * _UP if here < math.inf else math.inf


def log_ratio(trial: Profile, trials: Trials) -> float:
    """A bound on log f'(x) / f'(x') for x, x' the probabilities that trials on neighbours are worse than an outcome.

    With y = 1 - x, y' = 1 - x' and any (eps_1, delta_1) of a trial, y' <= e^eps_1 y + delta_1. Hence for

    - the negative binomial, whose f'(x) / f'(x') is ((gamma + (1 - gamma) y') / (gamma + (1 - gamma) y))^(eta + 1):
      linear in y over linear in y, so largest at y = 0 or 1, at most
      1 + (1 - gamma) max(delta_1 / gamma, e^eps_1 - 1 + delta_1), to the power eta + 1;
    - Poisson, whose f'(x) / f'(x') is e^(E[K] (y' - y)): at most e^(E[K] (e^eps_1 - 1 + delta_1)). The least such bound
      is at eps_1 = 0, with the total variation between trials as delta_1: it falls by less than e^eps_1 grows.
    """
    if isinstance(trials, NegativeBinomialTrials):
        gamma = trials.success

        def surplus(eps: float, share: float) -> tuple[float, bool]:
            rising, falling = share / gamma, _expm1(eps) + share
            return (1 + trials.shape) * math.log1p((1 - gamma) * max(rising, falling)), rising > falling

    else:

        def surplus(eps: float, share: float) -> tuple[float, bool]:
            return trials.mean * (_expm1(eps) + share), _expm1(eps) < _NEAR_ZERO * share

    return _least(trial, surplus)


def _least(trial: Profile, surplus: Callable[[float, float], tuple[float, bool]]) -> float:
    """The least surplus found by bisection for the delta_1 beyond which it grows; `surplus` tells the side."""
    low, high, best = math.log(_SMALLEST_DELTA), math.log(_LARGEST_DELTA), math.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        found, beyond = surplus(trial(math.exp(middle)), math.exp(middle))
        best = min(best, found)
        low, high = (low, middle) if beyond else (middle, high)
    return min(best, surplus(trial(_SMALLEST_DELTA), _SMALLEST_DELTA)[0])


def _expm1(value: float) -> float:
    return math.expm1(value) if value < 700 else math.inf
