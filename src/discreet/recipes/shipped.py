"""The names of the recipes that come with the library."""

from __future__ import annotations

from importlib import resources


def recipe_names() -> list[str]:
    """The recipes that come with the library."""
    folder = resources.files("discreet.recipes")
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))
