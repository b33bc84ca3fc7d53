"""The models that recipes name."""
