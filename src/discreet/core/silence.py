"""Silence: for a while nothing is logged, or nothing twice."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unlogged() -> Iterator[None]:
    """Inside, nothing is logged, by this library or another, in any thread."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def unrepeated() -> Iterator[None]:
    """Inside, this library logs no line twice."""
    heard: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        line = record.getMessage()
        new = line not in heard
        heard.add(line)
        return new

    logger = logging.getLogger("discreet")
    logger.addFilter(is_new)
    try:
        yield
    finally:
        logger.removeFilter(is_new)
