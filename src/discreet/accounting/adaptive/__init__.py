"""Filters and odometers: accounting for events that are chosen adaptively."""
