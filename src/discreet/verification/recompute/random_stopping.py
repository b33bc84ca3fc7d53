"""The best of K runs, K secret: recomputed from the events of one run and the law of K.

Let f(x) = E[x^K], and let M and N be the laws of one run on two neighbours, its outcomes ordered by their score (equal
ones by a fair draw). The search has density f'(x) at an outcome, relative to M, where x is the chance under M of
something worse; on the neighbour f'(x') relative to N. If log f'(x) / f'(x') <= r for all x and x' that can occur,
then, since f' <= f'(1) = E[K], for all e

    delta_search(e + r) <= E[K] delta_run(e).

With y = 1 - x and y' = 1 - x' the chances of something at least as good, y' <= e^t y + delta_run(t) for every t. So

    truncated negative binomial (eta, gamma): f'(x) is proportional to (gamma + (1 - gamma) y)^-(eta + 1), and
        gamma + (1 - gamma) y' <= e^t (gamma + (1 - gamma) y) if delta_run(t) <= (e^t - 1) gamma / (1 - gamma):
        r = (eta + 1) t for any such t, log(1 / gamma) at the most;
    Poisson with mean m: f'(x) = m e^(-m y), and y' - y <= (e^t - 1) + delta_run(t): r = m times that, for any t.

Both f are those of Papernot and Steinke (2022); the way to go by privacy profiles is that of Koskela, Redberg and Wang
(2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from discreet.core.errors import InputError
from discreet.verification.recompute import Bounds, Decision, epsilon_bounds
from discreet.verification.recompute.events import check_claim, positive

_ROUNDS = 20
_CROSSING = 60
"""The most steps that look for the crossing; the bracket is halved in every third, so they always meet it."""
_PRECISION = 5e-5
"""Precision of a run's recomputed epsilons, relative to the claim."""
_UP = 1 + 2.0**-40
_MOST_DELTA = 0.999


@dataclass(frozen=True, slots=True)
class Law:
    """`shape` and `success` of a truncated negative binomial law, or `shape` None and `mean` of a Poisson law."""

    shape: float | None
    success: float
    mean: float


def law_of(trials: object) -> Law:
    """The law of K from a certificate's JSON."""
    match trials:
        case {"law": "truncated_negative_binomial", "shape": shape, "success": success, **rest} if not rest:
            eta, gamma = _number("shape", shape), positive("success", success)
            if not (eta > -1 and gamma < 1):
                raise InputError("a truncated negative binomial law has a shape above -1, a success between 0 and 1")
            return Law(eta, gamma, _mean(eta, gamma))
        case {"law": "poisson", "mean": mean, **rest} if not rest:
            return Law(None, 0.0, positive("mean", mean))
    raise InputError(f"the law of the number of trials {str(trials)[:80]!r} is not known to this verifier")


def decide_search(events: dict[str, Any], trials: object, delta: float, adjacency: str, claim: float) -> Decision:
    """Accept iff `claim` is at least the bound for the best of K runs, each of `events`."""
    check_claim(claim)
    upper = search_bound(events, law_of(trials), delta, adjacency, max(_PRECISION * claim, 1e-6))
    bounds = Bounds(0.0, upper, 0.0)
    if claim >= upper:
        return Decision(True, bounds, f"claim {claim:.6g} is at least the recomputed upper bound {upper:.6g}")
    return Decision(
        False, bounds, f"claim {claim:.6g} is not supported: the recomputed upper bound of the search is {upper:.6g}"
    )


def search_bound(events: dict[str, Any], law: Law, delta: float, adjacency: str, tolerance: float) -> float:
    """An epsilon of the search at `delta`, rounded up."""

    times = max(1.0, law.mean if law.shape is None else 1 + law.shape)  # so often a run's epsilon counts in the surplus

    def profile(share: float, width: float = tolerance / times) -> float:
        return epsilon_bounds(events, min(share, _MOST_DELTA), adjacency, tolerance=width).upper

    run = profile(positive("delta", delta) / law.mean * (2 - _UP), tolerance)
    surplus = _poisson(profile, law.mean) if law.shape is None else _negative_binomial(profile, law, run, tolerance)
    return (run + surplus) * _UP


def _negative_binomial(profile: Callable[[float], float], law: Law, run: float, tolerance: float) -> float:
    """(eta + 1) t for the least t found with delta_run(t) <= share(t) = (e^t - 1) gamma / (1 - gamma).

    Any t leads to one: with e = epsilon_run(share(t)), the larger of e and t has it, since share grows. They meet in
    the least, which secants look for inside a bracket. At t = log(1 / gamma) the share is 1.
    """
    assert law.shape is not None
    odds, most = law.success / (1 - law.success) * (2 - _UP), -math.log(law.success) * _UP
    best, t, low, high = most, min(run / 2, most / 2), 0.0, most
    before: tuple[float, float] | None = None
    for step in range(_CROSSING):
        share = math.expm1(t) * odds
        e = (0.0 if share >= 1 else profile(share)) if share > 0 else math.inf
        best = min(best, max(e, t))
        gap = e - t
        if abs(gap) <= tolerance / max(1.0, 1 + law.shape):
            break
        low, high = (t, high) if gap > 0 else (low, t)
        last, before = before, (t, gap)
        secant = math.nan
        if last is not None and step % 3 != 2 and math.isfinite(gap) and math.isfinite(last[1]) and last[1] != gap:
            secant = t - gap * (t - last[0]) / (gap - last[1])
        t = secant if low < secant < high else 0.5 * (low + high)
    return (1 + law.shape) * best


def _poisson(profile: Callable[[float], float], mean: float) -> float:
    """mean (e^t - 1 + delta(t)), near its least value at t = 0, where delta is the total variation of two runs."""
    low, high, best = math.log(1e-6), math.log(_MOST_DELTA), 1.0
    for _ in range(_ROUNDS):
        share = math.exp(0.5 * (low + high))
        epsilon = profile(share)
        best = min(best, (math.expm1(epsilon) if epsilon < 700 else math.inf) + share)
        low, high = (low, math.log(share)) if epsilon <= 1e-3 * share else (math.log(share), high)
    return mean * best


def _mean(eta: float, gamma: float) -> float:
    """E[K] = eta (1 - gamma) / (gamma (1 - gamma^eta)), rounded up."""
    power = eta * math.log(gamma)
    ratio = -1 / math.log(gamma) if abs(power) < 1e-9 else eta / -math.expm1(power)
    # At a small power p, x / (1 - e^-x) = 1 + x / 2 + ...: what is left out above is below 1e-9 of it.
    return (1 - gamma) / gamma * ratio * (1 + 1e-9)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{name} must be a finite number, got {value!r}")
    return float(value)
