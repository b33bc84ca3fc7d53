"""Tuning plans: they choose among candidate settings."""
