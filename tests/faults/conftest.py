"""A PostgreSQL server for power cuts."""

from postgres_fixtures import postgres_server

__all__ = ["postgres_server"]
