"""Sparse histograms: the cost of values that occur in only one of two neighbours.

Every value that occurs gets N(0, s^2) noise, and is released if its noisy count is above T. If both neighbours
have a value, this is a Gaussian release, thresholded afterwards. If only one has it, its count there is 1, since a row
counts once; it is released with probability at most

    p = P(1 + N(0, s^2) > T) = Phi(-(T - 1) / s),

and the other neighbour never releases it. So the releases of the neighbours are mixtures

    P = (1 - p) P' + p P'',    Q = (1 - p) Q' + p Q'',

where P' and Q' leave out values that only one of them has: they are equal, or one row apart in counts that both have,
hence a Gaussian pair at 1 / s (add_remove, zero_out) or sqrt 2 / s at most (replace_one: one count falls, another
rises). Under replace_one either neighbour may have a value of its own, and the same p holds for both.

Adaptive composition with releases of any kind: both neighbours are in the good part of all k sparse histograms with the
same probability pi >= 1 - (p_1 + ... + p_k), and in that part all releases are dominated by the composition of the
Gaussian pairs with the other releases, whose profile is delta'(eps). So for every set S of outcomes

    P(S) - e^eps Q(S) <= pi (P_good(S) - e^eps Q_good(S)) + (1 - pi) <= delta'(eps) + p_1 + ... + p_k:

each histogram is accounted as a Gaussian one, at a delta that is smaller by the sum of all p (as for delta-approximate
zCDP, Bun and Steinke 2016, section 8). Wilkins, Kifer, Zhang, Karrer 2024 ("Exact privacy analysis of the Gaussian
sparse histogram mechanism") give the exact profile of one such release: the larger of the two cases instead of their
sum. Here p is a small part of delta, so little is lost.

Lower bound: if a value is so frequent that it is always released, its noisy counts are those of the Gaussian.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from discreet.core.events import SparseHistogram

_UP = 1 + 2.0**-40
"""More than the rounding error of argument and tail up to 38 standard deviations; beyond, the tail is below 1e-300."""


def escape(event: SparseHistogram) -> float:
    """p, rounded up: the largest probability that a value of one row alone is released."""
    deviations = (event.threshold - 1) / event.noise_multiplier * (1 - 2.0**-50)
    return min(1.0, float(ndtr(-deviations)) * _UP + 1e-300)


def left_of(delta: float, escapes: float) -> float:
    """The delta left after `escapes`, rounded down; 0 if nothing is left."""
    return (delta - escapes) * (1 - 2.0**-50) if escapes < delta else 0.0


def threshold_for(noise_multiplier: float, escapes: float) -> float:
    """The least whole number of rows at which p is at most `escapes`, for noise of up to 2^40 rows."""
    escapes = max(escapes, 2e-300)
    least = max(2, math.ceil(1 - noise_multiplier * float(ndtri(escapes))))
    while escape(SparseHistogram(noise_multiplier, least)) > escapes:
        least += 1
    return float(least)
