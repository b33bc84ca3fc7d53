"""Silence: for a while nothing is logged or warned of, or nothing twice; or an error says nothing.

What is silent is so in every thread: loggers and filters of warnings are those of the process.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import get_ident
from typing import TypeVar

from discreet.core.processes import ProcessWide

_Result = TypeVar("_Result")


@contextmanager
def _logging_disabled() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(sys.maxsize)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _warnings_kept() -> Iterator[None]:
    kept: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as kept:
            yield
    finally:
        for one in {str(one.message): one for one in kept}.values():
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno, source=one.source)


@contextmanager
def _warnings_ignored() -> Iterator[None]:
    with warnings.catch_warnings(record=True):  # recorded, in case code inside resets the filters
        warnings.simplefilter("ignore")
        yield


_UNLOGGED = ProcessWide(_logging_disabled)
_KEPT, _IGNORED = ProcessWide(_warnings_kept), ProcessWide(_warnings_ignored)


def unlogged() -> AbstractContextManager[None]:
    """A context in which nothing is logged, by this library or another, at any level."""
    return _UNLOGGED()


@contextmanager
def unwarned() -> Iterator[None]:
    """Inside, no warning is shown, as where a model meets private rows: torch's warnings name shapes, and so how many
    units were drawn, and those of a loss may name its value. The same code warns before a run, on random rows."""
    with _KEPT(), _IGNORED():  # both, so that one who leaves `warned_once` in another thread restores no filters here
        yield


@contextmanager
def warned_once() -> Iterator[None]:
    """Inside, where a model is tried again and again, each warning is kept, and shown once afterwards. None is heard
    while another thread is `unwarned`."""
    with _KEPT():
        yield


@contextmanager
def unrepeated() -> Iterator[None]:
    """Inside, this library logs no line of this thread twice."""
    heard: set[str] = set()
    thread = get_ident()

    def is_new(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
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


def attempted(make: Callable[[], _Result]) -> _Result | None:
    """The result of `make`; None if it raises. The error is dropped, because its text may hold a private value."""
    try:
        return make()
    except MemoryError:
        raise
    except Exception:
        return None
