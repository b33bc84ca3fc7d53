"""Drafts of schemas: what can be said of a table without looking at its values, and what is left to fill in."""
