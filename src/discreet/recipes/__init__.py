"""Recipes: a data set, a model, a plan and an optimizer in one YAML file, read top to bottom. Names are loaded on first
use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.recipes.recipe import Recipe
    from discreet.recipes.recipe_files import load_recipe
    from discreet.recipes.shipped import recipe_names

_HOMES = {"Recipe": "recipe", "load_recipe": "recipe_files", "recipe_names": "shipped"}

__all__ = ["Recipe", "load_recipe", "recipe_names"]


def __getattr__(name: str) -> Any:
    """The public name, from its file, on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"discreet.recipes.{_HOMES[name]}"), name)
