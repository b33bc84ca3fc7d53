"""Where a run lives: its folder, checkpoints, charges, and how it is stopped."""
