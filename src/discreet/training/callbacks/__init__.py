"""Loggers and progress bars. They receive releases and public figures only."""
