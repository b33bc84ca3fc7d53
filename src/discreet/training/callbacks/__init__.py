"""Loggers and progress bars: they are told releases and public figures."""
