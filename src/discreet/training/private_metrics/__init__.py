"""Metrics on private rows, paid for."""
