"""Recipes: a data set, a model, a plan and an optimizer in one YAML file, read top to bottom."""

from discreet.recipes.load import load_recipe, recipe_names
from discreet.recipes.recipe import Recipe

__all__ = ["Recipe", "load_recipe", "recipe_names"]
