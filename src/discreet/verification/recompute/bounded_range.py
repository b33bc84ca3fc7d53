"""One private choice: the epsilon of a release whose privacy loss stays in an interval, derived from nothing else.

Let log(P / Q) lie in [t - r, t], t in [0, r]. For a given x, the part of P above e^x Q is largest if all of it lies at
the ends (it is the mean under Q of a convex function of the ratio), where the mean of the ratio, 1, fixes the weights:

    Q(ratio e^t) = (1 - e^(t - r)) / (e^t - e^(t - r)),    delta(x, t) = (e^t - e^x) Q(ratio e^t)
                                                                       = (1 - e^(x - t)) (1 - e^(t - r)) / (1 - e^-r).

The product of the two differences is largest halfway, at t = (x + r) / 2, so that

    delta(x) = (1 - e^((x - r) / 2))^2 / (1 - e^-r),

which falls in x. The interval of Q / P has the same length: the same bound holds in the other direction. Written
without the trainer's code.
"""

from __future__ import annotations

import math

from discreet.core.errors import InputError
from discreet.verification.recompute import Bounds, Decision
from discreet.verification.recompute.events import check_claim, positive

_HALVINGS = 200
_UP = 1 + 2.0**-40


def range_delta(span: float, x: float) -> float:
    """delta(x) of a choice with this range of losses, rounded up; 0 at x = span and beyond."""
    if x >= span:
        return 0.0
    miss = -math.expm1((x - span) / 2)
    return miss * miss / -math.expm1(-span) * _UP


def range_bound(span: float, delta: float) -> float:
    """The least x >= 0 with delta(x) <= delta, from above, by bisection."""
    span, delta = positive("epsilon", span), positive("delta", delta)
    if not delta < 1:
        raise InputError(f"delta must be less than 1, got {delta!r}")
    if range_delta(span, 0.0) <= delta:
        return 0.0
    low, high = 0.0, span
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if range_delta(span, middle) <= delta else (middle, high)
    return high


def decide_choice(span: float, delta: float, claim: float) -> Decision:
    """Accept iff `claim` is at least the bound for one choice whose privacy loss has this range."""
    check_claim(claim)
    upper = range_bound(span, delta)
    bounds = Bounds(0.0, upper, 0.0)
    if claim >= upper:
        return Decision(True, bounds, f"claim {claim:.6g} is at least the recomputed bound {upper:.6g} of the choice")
    return Decision(False, bounds, f"claim {claim:.6g} is not supported: the choice alone costs up to {upper:.6g}")
