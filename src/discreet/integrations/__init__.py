"""Other people's training loops around a private one. Each module needs an extra, and is imported by its own name."""
