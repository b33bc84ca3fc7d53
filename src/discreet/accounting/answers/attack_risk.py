"""What a guarantee means: how well anyone can tell whether a unit is in the data.

The adversary sees everything that was released, and knows all other records. A test that decides "in" or "out" has a
false positive rate (out, called in) and a true positive rate (in, called in). Privacy bounds the second by the first
(Wasserman and Zhou 2010; Dong, Roth, Su 2019). Every figure here is an upper bound for the adversary.

The bound follows from one (epsilon, delta) or from the whole trade-off function of a plan. The trade-off function is
the truth; (epsilon, delta) sums it up in two numbers, and its bound can be far too pessimistic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.accounting.answers import tradeoff
from discreet.accounting.answers.event_tradeoff import trade_off
from discreet.accounting.answers.tradeoff import PolygonalTradeOff, TradeOff
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.core.events import Event

_UP = 1 + 2.0**-40


@dataclass(frozen=True, slots=True)
class Risk:
    """Bounds on any attack: the largest true positive rate at each false positive rate, and the advantage."""

    curve: TradeOff

    @property
    def advantage(self) -> float:
        """The largest TPR - FPR, which is delta(0); at even odds the best accuracy is 1/2 + advantage/2."""
        return min(1.0, self.curve.advantage * _UP)

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """The largest true positive rate at this false positive rate, both in [0, 1]."""
        return float(self.true_positive_rates(np.array([_share("false_positive_rate", false_positive_rate)]))[0])

    def true_positive_rates(self, false_positive_rates: Array) -> Array:
        """The largest true positive rate at each of these false positive rates; all in [0, 1]."""
        if not bool(((false_positive_rates >= 0) & (false_positive_rates <= 1)).all()):
            raise InputError("false_positive_rates must be between 0 and 1")
        known: Array = np.fmin(self.curve.power(false_positive_rates), (false_positive_rates + self.advantage) * _UP)
        return np.fmin(known, 1.0)

    def posterior(self, prior: float, false_positive_rate: float) -> float:
        """The largest probability that a unit which a test calls "in" is in, given `prior` and the test's FPR.

        By Bayes' rule: prior x TPR / (prior x TPR + (1 - prior) x FPR); 1 if the false positive rate is 0.
        """
        prior = checks.open_unit("prior", prior)
        wrong = _share("false_positive_rate", false_positive_rate)
        right = self.true_positive_rate(wrong)
        return min(1.0, prior * right / (prior * right + (1 - prior) * wrong) * _UP) if wrong > 0 else 1.0


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The risk from the trade-off function of a plan, and the risk from (epsilon, delta) alone.

    `curve` is None if no trade-off function is proved.
    """

    curve: Risk | None
    budget: Risk

    @property
    def best(self) -> Risk:
        """The sharper of the two."""
        return self.curve or self.budget


def side_by_side(curve: TradeOff | None, epsilon: float, delta: float) -> SideBySide:
    """Both risks; (epsilon, delta), proved as well, sharpens the curve, so the curve is never the worse of the two."""
    budget = from_budget(epsilon, delta)
    if isinstance(curve, PolygonalTradeOff) and math.isfinite(epsilon):
        epsilons = np.unique(np.append(curve.epsilons, epsilon))
        deltas = np.minimum(curve.delta(epsilons), np.where(epsilons >= epsilon, delta, 1.0))
        curve = replace(curve, epsilons=epsilons, deltas=deltas)
    return SideBySide(None if curve is None else Risk(curve), budget)


def posterior_without_delta(epsilon: float, prior: float) -> float:
    """The largest posterior at delta 0: prior e^eps / (1 - prior + prior e^eps).

    At delta 0 this holds for every outcome; otherwise some outcomes may tell more.
    """
    prior = checks.open_unit("prior", prior)
    epsilon = checks.real("epsilon", epsilon)
    if not epsilon >= 0:
        raise InputError(f"epsilon must be at least 0, got {epsilon!r}")
    return min(1.0, prior / (prior + (1 - prior) * math.exp(-epsilon)) * _UP)


def from_event(event: Event, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Risk:
    """The risk by the trade-off function of a fixed plan."""
    return Risk(trade_off(event, adjacency))


def from_budget(epsilon: float, delta: float) -> Risk:
    """The risk by one (epsilon, delta): Dong, Roth, Su 2019, Proposition 2.5; Kairouz, Oh, Viswanath 2015."""
    delta = checks.open_unit("delta", delta)
    epsilon = checks.real("epsilon", epsilon)
    return Risk(tradeoff.from_pairs(np.array([float(epsilon)]), np.array([delta])))


def from_mu(mu: float) -> Risk:
    """The risk by mu-Gaussian differential privacy: TPR = Phi(Phi^-1(FPR) + mu), advantage = 2 Phi(mu / 2) - 1."""
    return Risk(tradeoff.from_mu(mu))


def _share(name: str, value: float) -> float:
    result = checks.real(name, value)
    if not 0 <= result <= 1:
        raise InputError(f"{name} must be between 0 and 1, got {value!r}")
    return result
