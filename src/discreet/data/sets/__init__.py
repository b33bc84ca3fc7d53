"""The data sets that recipes name."""
