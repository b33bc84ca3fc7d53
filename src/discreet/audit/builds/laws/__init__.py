"""Draws, noise, charges and private metrics of a run, each held against the law that its plan states."""
