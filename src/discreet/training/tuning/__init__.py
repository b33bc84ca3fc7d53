"""Runs that choose among candidates, privately."""
