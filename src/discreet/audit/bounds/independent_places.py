"""One run in which each canary is guessed from something of its own: much sharper, under an assumption.

**Assumption.** Canary j is guessed from X_j, and the pairs (coin j, X_j) are independent of each other: what canaries
are guessed from has noise of its own. A white-box audit gives every canary a coordinate that no other row moves. The
noise of coordinates is independent if the build does what it says, which `discreet audit build` looks at; whether a
canary is drawn is independent under Poisson sampling only.

**Theorem.** Let every pair keep the trade-off function f = 1 - F, and let g canaries be guessed, g fixed beforehand:
which and how may depend on all of X. Then the number of right guesses is at most, in law, that of g guesses about m
independent coins with the dominating pair of f, where those are guessed that are surest.

*Proof.* Given all of X, coins are independent, and coin j is guessed right with probability at most (1 + c_j) / 2,
where c_j = |2 P(coin j | X_j) - 1|. So, whichever are guessed, P(C >= c | X) <= H(c_1, ..., c_m), the largest tail of a
sum of g independent coins with these chances. H is the largest of finitely many functions that are affine and rising in
each argument: it is convex and rising in each. By Blackwell's theorem (Dong, Roth, Su 2022, Theorem 2.10) X_j is made
from a draw Z_j of the dominating pair, with independent randomness. Then c_j <= E[c(Z_j) | X_j], and by Jensen's
inequality, one argument at a time, E H(c_1, ..., c_m) <= E H(c(Z_1), ..., c(Z_m)). Chances that are higher, on the same
number of guesses, give higher counts; so H there belongs to the g surest. QED

**What is computed.** The share V of the pair's mass that is surer than the first coin that is not guessed is
Beta(g + 1, m - g); given V, the g guesses are independent, each right with probability R(V) / V (`Lines.most_right`).
The mean over V is replaced by a sum over intervals, with the largest chance in each.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincinv

from discreet.audit.bounds.binomial_limits import at_least
from discreet.audit.bounds.curve_lines import Lines
from discreet.core.array_types import Array

_INTERVALS = 600
_ROUNDING = 1 + 1e-9


def p_value(lines: Lines, right: int, guesses: int, canaries: int) -> float:
    """The bound on P(at least `right` of `guesses` are right), rounded up."""
    if not 0 < right <= guesses <= canaries:
        return 1.0
    if guesses == canaries:
        return float(at_least(right, guesses, float(lines.most_right(np.ones(1))[0])))
    ends = _ends(guesses, canaries)
    chances = lines.most_right(ends[:-1]) / ends[:-1] * _ROUNDING
    tails = np.append(at_least(right, guesses, chances), 0.0)
    below = np.minimum(betainc(guesses + 1, canaries - guesses, ends[1:]) * _ROUNDING, 1.0)
    least = float(betainc(guesses + 1, canaries - guesses, ends[0])) * _ROUNDING  # guesses surer than any interval
    return min(1.0, (float(np.sum(below * np.maximum(-np.diff(tails), 0.0))) + least) * _ROUNDING)


def refuted(lines: Lines, right: int, guesses: int, canaries: int, level: float) -> bool:
    """Whether `right` or more of `guesses` are right with a probability of at most `level`, in every run whose pairs
    keep the trade-off function that `lines` bound."""
    return p_value(lines, right, guesses, canaries) <= level


def _ends(guesses: int, canaries: int) -> Array:
    """Ends of intervals of V: equally likely ones in the middle, finer ones at both sides, the last at 1."""
    tails = np.logspace(-17, -2, 80)
    levels = np.concatenate([tails, np.linspace(0.01, 0.99, _INTERVALS), 1 - tails[::-1]])
    ends = betaincinv(guesses + 1, canaries - guesses, levels)
    ends = np.unique(ends[(ends > 0) & (ends < 1)])
    return np.append(ends, 1.0)
