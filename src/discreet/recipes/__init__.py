"""Recipes: a data set, a model, a plan and an optimizer in one YAML file, read top to bottom."""

from discreet.recipes.recipe import Recipe
from discreet.recipes.recipe_files import load_recipe, recipe_names

__all__ = ["Recipe", "load_recipe", "recipe_names"]
