"""Whether a published folder supports its claim, found without the code that made it."""
