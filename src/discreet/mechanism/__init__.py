"""Mechanisms: from a bounded sum to a release that was paid for."""

from discreet.mechanism.correlated import Chain
from discreet.mechanism.gaussian import GRID_BITS, divide, gathered, gaussian_release, grid_for, rescaled
from discreet.mechanism.grid import LARGEST_MULTIPLE
from discreet.mechanism.noise import NoiseAhead, drawing_ahead, noise_multiplier

__all__ = [
    "GRID_BITS",
    "LARGEST_MULTIPLE",
    "Chain",
    "NoiseAhead",
    "divide",
    "drawing_ahead",
    "gathered",
    "gaussian_release",
    "grid_for",
    "noise_multiplier",
    "rescaled",
]
