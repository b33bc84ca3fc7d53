"""The library's messages while it trains, on standard error."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from discreet.core.processes import rank


class _Echo(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"discreet: {record.getMessage()}", err=True)


@contextmanager
def spoken(*, verbose: bool) -> Iterator[None]:
    """A context in which messages of the logger "discreet" go to standard error, one line each, even those that are no
    warnings.

    `verbose`: the message on the chosen engine, too. Of several processes the first speaks.
    """
    logger, handler = logging.getLogger("discreet"), _Echo()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.CRITICAL if rank() else logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
