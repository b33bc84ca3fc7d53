"""The sections of a recipe, one file each."""
