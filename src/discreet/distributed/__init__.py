"""Several processes that take the steps of one run together."""
