"""One server of crashing runs for each test process, and a PostgreSQL server where there can be one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from crash_server import Server
from postgres_fixtures import postgres, postgres_server

__all__ = ["postgres", "postgres_server", "server"]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    started = Server()
    yield started
    started.close()
