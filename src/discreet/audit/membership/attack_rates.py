"""The success of an attack: true positives at few false positives, beside the most that a guarantee allows.

A guarantee bounds the shares over runs and rows on average: TPR <= F(FPR) for the trade-off function of the claim. What
is measured is of one model and of the rows at hand. Intervals are those of Clopper and Pearson, as if rows were
independent given the model. They are not quite, so a share above the bound is a reason to look, and none below it is a
proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from discreet.audit.bounds.binomial_limits import share_at_least, share_at_most
from discreet.core.array_types import Array

RATES = (0.001, 0.01, 0.05)
"""False-positive rates that are reported."""

LOOK = 1e-3
"""How often shares beyond the bound would be reported of independent rows that keep it, over all attacks together."""

Most = Callable[[float], float]
"""The largest true-positive rate that a guarantee allows at a false-positive rate."""


@dataclass(frozen=True, slots=True)
class AttackRate:
    """An attack at the threshold that says "trained on" of at most a share `rate` of the others.

    `alarms` of `others` and `hits` of `members` are above it. `low`, `high`: the 95 % interval of the true-positive
    rate. `rate_high`: the upper end of that of the false-positive rate, which is far above `rate` where others are few.
    `most`, `most_high`: what the guarantee allows at `rate` and at `rate_high`. `beyond`: whether both shares together
    contradict it by far.
    """

    attack: str
    rate: float
    alarms: int
    others: int
    hits: int
    members: int
    low: float
    high: float
    rate_high: float
    most: float
    most_high: float
    beyond: bool

    @property
    def found(self) -> float:
        """The share of members that are recognised."""
        return self.hits / self.members


@dataclass(frozen=True, slots=True, eq=False)
class Attack:
    """An attack by its scores: of rows that the model was trained on, and of others."""

    name: str
    members: Array
    others: Array

    def curve(self) -> tuple[Array, Array]:
        """(false-positive rates, true-positive rates) at every threshold, ascending."""
        cuts = np.unique(np.concatenate([self.members, self.others]))[::-1]
        wrong = np.searchsorted(np.sort(-self.others), -cuts, side="right") / len(self.others)
        right = np.searchsorted(np.sort(-self.members), -cuts, side="right") / len(self.members)
        return np.concatenate([[0.0], wrong]), np.concatenate([[0.0], right])

    def accuracy(self) -> float:
        """The best mean of true-positive and true-negative rate, at a threshold chosen on these rows."""
        wrong, right = self.curve()
        return float(0.5 + 0.5 * np.max(right - wrong))

    def counts_at(self, rate: float) -> tuple[int, int]:
        """(alarms, hits) above the lowest threshold with at most a share `rate` of false positives."""
        ranked = np.sort(self.others)[::-1]
        allowed = int(np.floor(rate * len(ranked) * (1 + 1e-12)))
        cut = ranked[allowed] if allowed < len(ranked) else -np.inf
        return int((self.others > cut).sum()), int((self.members > cut).sum())


def measured(attacks: Iterable[Attack], most: Most, rates: tuple[float, ...] = RATES) -> list[AttackRate]:
    """Every attack at every rate."""
    every = list(attacks)
    level = LOOK / (2 * max(1, len(every) * len(rates)))
    found = []
    for attack in every:
        for rate in rates:
            (alarms, hits), n, m = attack.counts_at(rate), len(attack.others), len(attack.members)
            beyond = share_at_least(hits, m, level) > most(share_at_most(alarms, n, level))
            low, high = share_at_least(hits, m, 0.025), share_at_most(hits, m, 0.025)
            limit = share_at_most(alarms, n, 0.025)
            found.append(
                AttackRate(attack.name, rate, alarms, n, hits, m, low, high, limit, most(rate), most(limit), beyond)
            )
    return found
