"""The command line: one file per command, each a thin call into the library."""

from discreet.cli.app import main

__all__ = ["main"]
