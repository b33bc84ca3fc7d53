"""What the library has to say while it trains, on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class _Echo(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"discreet: {record.getMessage()}", err=True)


@contextmanager
def spoken(*, verbose: bool = False) -> Iterator[None]:
    """Inside, messages of the logger "discreet" go to standard error, a line each; also those that are no warnings.

    `verbose`: which engine runs, too.
    """
    logger, handler = logging.getLogger("discreet"), _Echo()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
