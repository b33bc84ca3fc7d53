"""Commands that price releases, and train nothing."""
