"""What a guarantee means: how well anyone can tell whether a unit is in the data.

The adversary sees everything that was released, and knows all other records. A test that decides "in" or "out" has a
share of false positives (out, called in) and of true positives (in, called in). Privacy bounds the second by the
first (Wasserman and Zhou 2010; Dong, Roth, Su 2019). Everything here is an upper bound for the adversary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from discreet.accounting import gdp
from discreet.core import checks
from discreet.core.errors import InputError

_UP = 1 + 2.0**-40


@dataclass(frozen=True, slots=True)
class Risk:
    """Bounds on any attack: the largest true positive rate at each false positive rate, and the advantage."""

    _best: Callable[[float], float]
    advantage: float
    """Largest true positive rate minus false positive rate; from even odds, 1/2 + advantage/2 is the best accuracy."""

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """The most true positives at this share of false positives, in [0, 1]."""
        share = _share("false_positive_rate", false_positive_rate)
        return min(1.0, self._best(share) * _UP, (share + self.advantage) * _UP)

    def posterior(self, prior: float, false_positive_rate: float) -> float:
        """The chance that a unit which a test calls "in" is in, from a `prior`, at this share of false positives.

        By Bayes' rule: prior x TPR / (prior x TPR + (1 - prior) x FPR); 1 where nobody is called wrongly.
        """
        prior = checks.open_unit("prior", prior)
        wrong = _share("false_positive_rate", false_positive_rate)
        right = self.true_positive_rate(wrong)
        return prior * right / (prior * right + (1 - prior) * wrong) if wrong > 0 else 1.0


def posterior_without_delta(epsilon: float, prior: float) -> float:
    """What a prior becomes at most, but for the delta: prior e^eps / (1 - prior + prior e^eps).

    Where delta is 0 this holds for every outcome. Where it is not, an outcome may say more.
    """
    prior = checks.open_unit("prior", prior)
    epsilon = checks.real("epsilon", epsilon)
    if not epsilon >= 0:
        raise InputError(f"epsilon must be at least 0, got {epsilon!r}")
    return min(1.0, prior / (prior + (1 - prior) * math.exp(-epsilon)) * _UP)


def from_budget(epsilon: float, delta: float) -> Risk:
    """From one (epsilon, delta): Dong, Roth, Su 2019, Proposition 2.5; Kairouz, Oh, Viswanath 2015."""
    checks.open_unit("delta", delta)
    return from_profile(lambda _epsilon: delta, [epsilon])


def from_mu(mu: float) -> Risk:
    """From mu-Gaussian differential privacy: TPR = Phi(Phi^-1(FPR) + mu), advantage = 2 Phi(mu / 2) - 1."""
    mu = checks.nonnegative("mu", mu)
    return Risk(lambda share: gdp.power(mu, share), min(1.0, math.erf(mu / math.sqrt(8)) * _UP))


def from_profile(profile: Callable[[float], float], epsilons: Sequence[float]) -> Risk:
    """From upper bounds on delta at several epsilons: the best of what each says (a PLD curve, say).

    Each (epsilon, delta) gives TPR <= delta + e^eps FPR, and 1 - FPR <= delta + e^eps (1 - TPR) the other way round.
    Its advantage is at most (e^eps - 1 + 2 delta) / (e^eps + 1). More epsilons only sharpen the bounds.
    """
    points = []
    for epsilon in epsilons:
        if not checks.real("epsilon", epsilon) >= 0:
            raise InputError(f"epsilon must be at least 0, got {epsilon!r}")
        points.append((float(epsilon), min(1.0, profile(epsilon))))
    if not points:
        raise InputError("at least one epsilon is needed")

    def best(share: float) -> float:
        return min(min(delta + _exp(eps) * share, 1 - math.exp(-eps) * (1 - delta - share)) for eps, delta in points)

    advantages = (math.tanh(eps / 2) + 2 * delta / (1 + _exp(eps)) for eps, delta in points)
    return Risk(best, min(1.0, min(advantages) * _UP))


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))


def _share(name: str, value: float) -> float:
    result = checks.real(name, value)
    if not 0 <= result <= 1:
        raise InputError(f"{name} must be between 0 and 1, got {value!r}")
    return result
