"""Which models are refused, since examples would influence each other."""
