"""Filters and odometers: accounting for events that are chosen on the way."""
