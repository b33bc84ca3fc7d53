"""What the sections of a recipe say, a file each."""
