"""Training whose weights are shared out among processes."""
