"""Fresh keys that are the same whenever a test is run again: noise, and what is learnt under it, then are too.

What the library takes from the operating system for a key depends here on the test or fixture that asks, and on how
often it has asked. Keys still differ from one another. Processes that a test starts draw real ones.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_KEY_BYTES = 32
_real, _process = os.urandom, os.getpid()
_asking: list[tuple[str, list[int]]] = [("collection", [0])]


def _urandom(count: int, /) -> bytes:
    if count != _KEY_BYTES or os.getpid() != _process:
        return _real(count)
    name, asked = _asking[-1]
    asked[0] += 1
    return hashlib.sha256(f"{name} {asked[0]}".encode()).digest()


@contextmanager
def _asks(name: str) -> Iterator[None]:
    _asking.append((name, [0]))
    try:
        yield
    finally:
        _asking.pop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    with _asks(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
    """What several tests share does not depend on which of them comes first."""
    test = _asking[-1][0] if fixturedef.scope == "function" else fixturedef.baseid
    with _asks(f"{test} {fixturedef.argname} {request.param_index}"):
        return (yield)


os.urandom = _urandom
