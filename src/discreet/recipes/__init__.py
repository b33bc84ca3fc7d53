"""Recipes: a data set, a model, a plan and an optimizer in one YAML file, read top to bottom. Names are loaded on first
use."""

from typing import TYPE_CHECKING

from discreet.core.imports.first_use import listed, on_first_use

if TYPE_CHECKING:
    from discreet.recipes.recipe import Recipe
    from discreet.recipes.recipe_files import load_recipe
    from discreet.recipes.shipped import recipe_names

_HOMES = {"Recipe": ".recipe", "load_recipe": ".recipe_files", "recipe_names": ".shipped"}

__all__ = ["Recipe", "load_recipe", "recipe_names"]

__getattr__ = on_first_use(__name__, _HOMES)
__dir__ = listed(__name__, __all__)
