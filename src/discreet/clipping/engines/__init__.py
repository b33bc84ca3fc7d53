"""Engines: ways to form the same clipped sum."""
