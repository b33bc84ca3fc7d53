"""Private metrics: metrics on private rows, paid for."""
