"""The checks of a published folder, one file each."""
