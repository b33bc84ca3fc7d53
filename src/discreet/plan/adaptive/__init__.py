"""Adaptive plans: their events are chosen during the run, within a privacy filter."""
