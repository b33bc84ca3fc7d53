"""The density of a normal, without its constant, in many digits."""

import mpmath as mp


def bell(x: mp.mpf) -> mp.mpf:
    """exp(-x^2 / 2)."""
    return mp.exp(-x * x / 2)
