"""One server of crashing runs for each test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crash_runs import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()
