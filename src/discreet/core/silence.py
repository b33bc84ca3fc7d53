"""Silence: for a while nothing is logged, or nothing twice."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class _Silence:
    """Made by whoever comes first, and undone by who leaves last, in whatever thread."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = Lock(), 0, logging.NOTSET

    def enter(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = logging.root.manager.disable
            self._inside += 1
            logging.disable(sys.maxsize)

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                logging.disable(self._before)


_SILENCE = _Silence()


@contextmanager
def unlogged() -> Iterator[None]:
    """Inside, nothing is logged, by this library or another, at any level, in any thread."""
    _SILENCE.enter()
    try:
        yield
    finally:
        _SILENCE.leave()


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
