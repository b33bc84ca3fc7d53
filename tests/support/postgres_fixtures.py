"""A private PostgreSQL server, where its programs and psycopg are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import pytest
from postgres_server import PostgresServer, find_programs


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed (pip install discreet[postgres])")
    if find_programs() is None:
        pytest.skip("no PostgreSQL server programs (initdb, pg_ctl) on this machine")
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Callable[[], str]:
    """Addresses of fresh databases."""
    return postgres_server.new_database
