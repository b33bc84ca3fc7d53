"""The noise of DP dropout as the paper computes it (section 4.3): sigma from epsilon. The library has the way back."""

import math

from discreet.accounting.theories import paper_figures


def textbook(delta: float) -> float:
    """epsilon x sigma of one Gaussian release (Dwork and Roth 2014, Theorem A.1)."""
    return math.sqrt(2 * math.log(1.25 / delta))


def by_advanced_composition(epsilon: float, passes: float, rate: float, delta: float, share: float) -> float:
    """The sigma whose `dropout_advanced` is `epsilon`, by bisection."""
    low, high = 1e-3, 1e6
    while high - low > 1e-9 * high:
        middle = math.sqrt(low * high)
        meets = paper_figures.dropout_advanced(middle, passes, rate, delta, share) <= epsilon
        low, high = (low, middle) if meets else (middle, high)
    return high


def by_zcdp(epsilon: float, passes: float, rate: float, delta: float, step_delta: float) -> float:
    """Equations 6 and 7: rho from epsilon, e' of a pass, e_iter before amplification, sigma."""
    log = math.log(1 / delta)
    rho = (math.sqrt(epsilon + log) - math.sqrt(log)) ** 2
    amplified = textbook(rate * step_delta) * math.sqrt(2 * rho / passes)
    return textbook(step_delta) / math.log1p(math.expm1(amplified) / rate)
