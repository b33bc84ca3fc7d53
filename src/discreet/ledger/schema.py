"""The tables of the ledger."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Integer, MetaData, String, Table, Text, UniqueConstraint

metadata = MetaData()

runs = Table(
    "runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("plan_fingerprint", String(80), nullable=False),
)
"""One row per run; its plan never changes."""

attempts = Table(
    "attempts",
    metadata,
    Column("run", ForeignKey("runs.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
)
"""One row per start of a run; each has randomness of its own."""

reservations = Table(
    "reservations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("event", Text, nullable=False),
    Column("released", Integer, nullable=False, default=0),
    UniqueConstraint("run", "position"),
)
"""One row per block of steps: charged when the row is there, whatever was drawn (`released` counts steps)."""
