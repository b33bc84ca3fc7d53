"""Mechanisms: from a bounded sum to a release that was paid for."""

from discreet.mechanism.gaussian import gaussian_release

__all__ = ["gaussian_release"]
