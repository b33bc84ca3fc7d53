"""One run, any (epsilon, delta)-private mechanism: the bound of Steinke, Nasr and Jagielski 2023, for comparison.

**Theorem** (their section 5; the form is that of their Appendix D). m fair coins decide which canaries are in, and
flipping one of them keeps (epsilon, delta)-privacy. From what the run gives away, g of them are guessed. With f(c) =
P(Binomial(g, e^eps / (1 + e^eps)) >= c), at least c guesses are right with probability at most

    f(c) + 2 m delta max_{1 <= i <= c} (f(c - i) - f(c)) / i.

Nothing else is assumed, not even a family of curves: what is refuted is (epsilon, delta) itself. `any_mechanism` knows
the whole curve, and finds more.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from discreet.accounting.bisection import bisect
from discreet.audit.bounds.binomial_limits import at_least

_MOST = 50.0
"""No larger epsilon is stated."""


def p_value(right: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The bound on P(at least `right` of `guesses` are right), rounded up."""
    if not 0 < right <= guesses <= canaries:
        return 1.0
    chance = float(expit(epsilon)) * (1 + 2.0**-50)
    moved = np.arange(right + 1)
    tails = at_least(right - moved, guesses, chance)  # each is raised by at most 2e-9 of itself
    if delta == 0:
        return float(tails[0])
    gains = (tails[1:] - tails[0] * (1 - 2e-9)) / moved[1:]
    return min(1.0, float(tails[0] + 2 * canaries * delta * np.max(gains)) * (1 + 1e-12))


def epsilon_bound(right: int, guesses: int, canaries: int, delta: float, failure: float) -> float:
    """The largest epsilon that is refuted at level `failure`, rounded down; 0 if none is."""
    if p_value(right, guesses, canaries, 0.0, delta) > failure:
        return 0.0

    def is_allowed(epsilon: float) -> bool:
        return not p_value(right, guesses, canaries, epsilon, delta) <= failure

    return bisect(is_allowed, 0.0, _MOST, absolute=1e-6)[0]
