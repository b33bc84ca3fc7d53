"""Products of what a layer was given with the gradients of its outputs: their norms and sums."""
