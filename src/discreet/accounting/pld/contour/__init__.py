"""Epsilon by the characteristic function of the privacy loss, on a line in the complex plane."""
