"""Mechanisms: from a bounded sum to a release that was paid for."""

from discreet.mechanism.gaussian import GRID_BITS, gaussian_release, grid_for, noise_multiplier, rescaled
from discreet.mechanism.grid import LARGEST_MULTIPLE

__all__ = ["GRID_BITS", "LARGEST_MULTIPLE", "gaussian_release", "grid_for", "noise_multiplier", "rescaled"]
