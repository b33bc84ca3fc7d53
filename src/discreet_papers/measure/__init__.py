"""Runs of experiments, and the store of their results."""
