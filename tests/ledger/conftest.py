"""A private PostgreSQL server, where its programs and psycopg are installed."""

from postgres_fixtures import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]
