"""The command line: one file per command, each a thin call into the library."""

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; Ctrl-C is one line, also while its modules are being loaded."""
    try:
        from discreet.cli.app import main as loaded

        loaded(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("discreet: interrupted\n")
        sys.exit(130)
