"""Figures for people: a few digits, rounded to the safe side."""

from discreet.core.rounding import rounded_down, rounded_up

__all__ = ["rounded_down", "rounded_up"]
