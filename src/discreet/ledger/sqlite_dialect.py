"""SQLAlchemy's dialect of SQLite for ledgers: what is compiled for one ledger of a process serves all others.

SQLAlchemy looks a statement up by the dialect for which it was compiled, and makes a dialect for every ledger that is
opened. Compiling takes longer than what SQLite then does.
"""

from __future__ import annotations

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite


class Dialect(SQLiteDialect_pysqlite):
    """All of them write the same SQL for the same statement, so all are equal."""

    supports_statement_cache = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))
