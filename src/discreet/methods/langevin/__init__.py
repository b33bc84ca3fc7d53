"""Langevin dynamics over releases."""
