"""Adversaries who choose mechanisms from outputs, and what they achieve, by exact enumeration.

A mechanism is a pair of distributions over a few outcomes, one per neighbour. The damage of a strategy at epsilon is
E_P[(1 - e^(epsilon - L))+] over all of its outputs, L = log P/Q of the whole transcript: a claim (epsilon, delta) is
false if it exceeds delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.accounting.adaptive import filter_decision
from discreet.accounting.adaptive.filters import BasicFilter, Filter, RdpCurveFilter, RdpOrderFilter, ZcdpFilter

Spent = tuple[float, ...]


@dataclass(frozen=True)
class Pair:
    """Log-probabilities of the outcomes on either neighbour."""

    log_p: tuple[float, ...]
    log_q: tuple[float, ...]

    def renyi(self, order: float) -> float:
        """The larger of D_order(P || Q) and D_order(Q || P)."""
        p, q = np.array(self.log_p), np.array(self.log_q)
        return max(float(np.logaddexp.reduce(order * a + (1 - order) * b)) for a, b in ((p, q), (q, p))) / (order - 1)

    def rho(self) -> float:
        """A bound on sup D_alpha / alpha: D_alpha is nondecreasing, so an interval is bounded at its ends."""
        orders = 1 + np.geomspace(1e-3, 1e4, 120)
        p, q = np.array(self.log_p), np.array(self.log_q)
        rows = [np.logaddexp.reduce(np.outer(orders, a) + np.outer(1 - orders, b), axis=1) for a, b in ((p, q), (q, p))]
        values = np.maximum(*rows) / (orders - 1)
        largest = float(np.max(np.abs(p - q)))
        return float(np.max(np.append(values, largest) / np.insert(orders, 0, 1.0)))

    def delta(self, epsilon: float) -> float:
        """The larger hockey-stick divergence."""
        p, q = np.exp(self.log_p), np.exp(self.log_q)
        return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def spikes(losses: Sequence[float], log_ps: Sequence[float]) -> Pair | None:
    """Outcomes of the given losses and log-probabilities, and one more for the rest; None if there is no rest."""
    p, q = 1 - sum(map(math.exp, log_ps)), 1 - sum(math.exp(lp - loss) for lp, loss in zip(log_ps, losses, strict=True))
    if p <= 1e-12 or q <= 1e-12:
        return None
    log_qs = [lp - loss for lp, loss in zip(log_ps, losses, strict=True)]
    return Pair((*log_ps, math.log(p)), (*log_qs, math.log(q)))


Judge = Callable[[Spent, Pair], Spent | None]
"""What is spent after the pair, or None if it is refused."""


def judge(budget: Filter) -> Judge:
    """The filter under attack."""

    def decide(spent: Spent, pair: Pair) -> Spent | None:
        decision = filter_decision.decide(budget, spent, cost(budget, spent, pair))
        return decision.spent if decision.admitted else None

    return decide


def cost(budget: Filter, spent: Spent, pair: Pair) -> Spent:
    """What the pair costs in the currency of the filter. For the basic filter: half of the epsilon that is left."""
    match budget:
        case RdpOrderFilter(order=order):
            return (pair.renyi(order),)
        case RdpCurveFilter(orders=orders):
            return tuple(pair.renyi(order) for order in orders)
        case ZcdpFilter():
            return (pair.rho(),)
        case BasicFilter(epsilon=epsilon):
            share = 0.5 * epsilon if not any(spent) else epsilon - spent[0]
            return share, pair.delta(share)
    raise AssertionError("Gaussian filters are attacked with Gaussians")


def path_switching(decide: Judge, start: Spent, epsilon: float, first: Pair, conversions: Sequence[float]) -> float:
    """The damage of: one mechanism, then by its outcome the most damaging single spike that is still admitted.

    `conversions` are log(a / (a - 1)) of the orders a at which a spike pays best at loss epsilon + log(a / (a - 1)).
    """
    spent = decide(start, first)
    if spent is None:
        return 0.0
    damage = 0.0
    for log_p, log_q in zip(first.log_p, first.log_q, strict=True):
        loss = log_p - log_q
        alone = 1 - math.exp(min(0.0, epsilon - loss))
        best = max(_best_spike(decide, spent, epsilon - loss, more) for more in conversions)
        damage += math.exp(log_p) * max(alone, best)
    return damage


def _best_spike(decide: Judge, spent: Spent, left: float, more: float) -> float:
    """What a spike of loss left + more adds at epsilon - loss = left, with the largest probability admitted."""
    target = left + more
    if target <= 0:
        return 0.0
    low, high = -60.0, -1e-9
    for _ in range(40):
        middle = 0.5 * (low + high)
        pair = spikes([target], [middle])
        low, high = (middle, high) if pair is not None and decide(spent, pair) is not None else (low, middle)
    pair = spikes([target], [low])
    if pair is None or decide(spent, pair) is None:
        return 0.0
    total = 0.0
    for log_p, log_q in zip(pair.log_p, pair.log_q, strict=True):
        total += math.exp(log_p) * max(0.0, 1 - math.exp(left - (log_p - log_q)))
    return total
