"""Figures for people: a few digits, rounded to the side that promises less."""

from discreet.core.rounding import rounded_down, rounded_up

__all__ = ["rounded_down", "rounded_up"]
