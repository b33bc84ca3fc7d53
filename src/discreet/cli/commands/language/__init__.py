"""Commands for published language models."""
