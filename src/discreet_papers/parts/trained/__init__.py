"""Kinds of parts that train networks."""
