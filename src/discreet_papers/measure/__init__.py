"""Runs of experiments, and where their results are kept."""
