"""The life of a run: its folder, checkpoints, charges, and how it is stopped."""
