"""The ledger: what was spent, durable before anything is drawn."""

from discreet.accounting.adaptive.filters import BasicFilter as Budget
from discreet.ledger.budget import Spent
from discreet.ledger.chain import Entry, Head, public_record, record_digest
from discreet.ledger.ledger import QUERIES, Ledger, NextEvents
from discreet.ledger.names import checked_name, without_budget

__all__ = [
    "QUERIES",
    "Budget",
    "Entry",
    "Head",
    "Ledger",
    "NextEvents",
    "Spent",
    "checked_name",
    "public_record",
    "record_digest",
    "without_budget",
]
