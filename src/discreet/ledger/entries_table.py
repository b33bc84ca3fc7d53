"""The one table of the ledger. Rows are only ever appended."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, MetaData, String, Table, Text, UniqueConstraint, bindparam, func, select

metadata = MetaData()

entries = Table(
    "discreet_entries",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("dataset", String(200), nullable=False),
    Column("run", String(64), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("at", String(40), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    UniqueConstraint("previous"),
    Index("discreet_entries_of_run", "run", "kind"),
)
"""
| kind        | body                                              | other columns used        |
|-------------|---------------------------------------------------|---------------------------|
| budget      | the filter; without a name, the basic one         | dataset                   |
| run         | plan fingerprint, epsilon, delta, adjacency, unit, and its filter if it has one | dataset, run |
| attempt     | engine, noise, randomness, and a random salt      | run, attempt              |
| reservation | the event of the block                            | run, attempt, position, steps |
| release     | {}                                                | run, attempt, position    |
| total       | what the entries before it charged to a data set  | dataset                   |

The position of a release is the first step not yet released. Numbers count from 0 without gaps; `previous` is the
hash of the row before, 64 zeros for the first. Unused text columns are empty, unused numbers 0. The same schema serves
SQLite and PostgreSQL.
"""

by_dataset = Index("discreet_entries_of_dataset", entries.c.kind, entries.c.dataset)
counted = Index("discreet_entries_counted", entries.c.attempt)
"""Of one small number: all rows are counted by it, which reads 9 bytes a row instead of 80."""

LATER_INDEXES = by_dataset, counted
"""Those that ledgers of early versions lack."""

_NEWEST = select(func.max(entries.c.number)).scalar_subquery()

ENDS = (
    select(entries)
    .where(entries.c.number.in_([bindparam("number", type_=Integer), _NEWEST]))
    .order_by(entries.c.number)
)
"""The entry with a number and the newest one. Every transaction asks for them, so the query is made once."""
