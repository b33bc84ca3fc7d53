"""Preflight checks: all that is checked before a run sees a private row."""
