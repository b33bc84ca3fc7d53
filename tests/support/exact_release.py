"""delta of one sampled Gaussian release by its formula, at as many digits as mpmath is told to keep."""

from __future__ import annotations

import mpmath as mp

from discreet.accounting.pld.poisson_pair import Direction


def normal(z: mp.mpf) -> mp.mpf:
    return mp.erfc(-z / mp.sqrt(2)) / 2


def outcome(rate: mp.mpf, noise: mp.mpf, loss: mp.mpf) -> mp.mpf:
    """Where the removal loss is `loss`; the loss is log(1 - q + q exp((2x - 1) / (2 s^2)))."""
    inside = (mp.exp(loss) - (1 - rate)) / rate
    return -mp.inf if inside <= 0 else noise**2 * mp.log(inside) + mp.mpf(1) / 2


def hockey_stick(rate: float, noise: float, epsilon: mp.mpf, direction: Direction) -> mp.mpf:
    """delta(epsilon) of one release, for the pair of Zhu, Dong, Wang 2022, Theorem 11."""
    q, s, eps = mp.mpf(rate), mp.mpf(noise), mp.mpf(epsilon)
    if direction is Direction.REMOVAL:  # outcomes above x
        x = outcome(q, s, eps)
        null, shifted = normal(-x / s), normal((1 - x) / s)
        return (1 - q) * null + q * shifted - mp.exp(eps) * null
    x = outcome(q, s, -eps)  # outcomes below x
    null, shifted = normal(x / s), normal((x - 1) / s)
    return null - mp.exp(eps) * ((1 - q) * null + q * shifted)
