"""What is asked of an account: calibration, comparison, trade-off, attacks."""
