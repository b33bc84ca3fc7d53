"""Checks of the loss before a run."""
