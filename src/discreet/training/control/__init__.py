"""Runs that react to their own releases."""
