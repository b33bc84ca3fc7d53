"""Questions to an accountant: calibration, comparison, trade-off functions, attack risk."""
