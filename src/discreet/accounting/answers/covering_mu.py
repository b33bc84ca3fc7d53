"""One number for a whole trade-off function: the smallest mu whose Gaussian curve, less a slack, lies below it.

`covering_mu(curve, slack)` = mu proves for a plan: f(a) >= G_mu(a) - slack at every a, in other words
delta(eps) <= delta_mu(eps) + slack at every epsilon. A slack of about the plan's delta is needed: with sampling, the
far tail of f is that of the unsampled plan (all batches may draw the unit), and no smaller mu covers that tail.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from discreet.accounting.answers.tradeoff import GaussianTradeOff, TradeOff, lower_hull
from discreet.core import checks
from discreet.core.array_types import Array

_UP = 1 + 1e-9


def covering_mu(curve: TradeOff, slack: float) -> float:
    """The smallest mu, rounded up by 1e-9 of itself, with f >= G_mu - `slack` everywhere; infinite if there is none.

    The lower bound on f is a polygon and G_mu is convex, so it is enough to compare them at the polygon's corners.
    """
    if slack != 0:
        checks.open_unit("slack", slack)
    if isinstance(curve, GaussianTradeOff) and slack == 0:
        return curve.mu
    wrong, right = corners(curve)
    if not (np.all(np.isfinite(wrong)) and np.all(np.isfinite(right))):
        return math.inf
    half = wrong + right <= 1 + 1e-9
    wrong, right = wrong[half], right[half]
    with np.errstate(invalid="ignore"):
        # At each corner, and at its mirror image; written so that nothing cancels near 0.
        here = ndtri(np.maximum(right - slack, 0.0)) - ndtri(wrong)
        mirrored = ndtri(right) - ndtri(np.minimum(wrong + slack, 1.0))
    return max(float(np.max(np.where(np.isnan(way), 0.0, way), initial=0.0)) for way in (here, mirrored)) * _UP


def corners(curve: TradeOff) -> tuple[Array, Array]:
    """The corners of the bound on true positives: (false positive rates, ascending; bounds on true positive rates)."""
    slopes, constants = curve.lines
    growth, constant = lower_hull(np.insert(np.exp(slopes), 0, 0.0), np.insert(constants, 0, 1.0))
    growth, constant = growth[::-1], constant[::-1]
    wrong = np.clip(np.diff(constant) / -np.diff(growth), 0.0, 1.0)
    right = np.maximum(constant[:-1] + growth[:-1] * wrong, constant[1:] + growth[1:] * wrong)
    return np.insert(wrong, 0, 0.0), np.insert(np.minimum(right, 1.0), 0, constant[0])
