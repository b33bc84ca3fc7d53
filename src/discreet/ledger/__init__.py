"""The ledger: what was spent, durable before anything is drawn."""

from discreet.ledger.budget import Budget, Spent
from discreet.ledger.chain import Entry, digest_of
from discreet.ledger.ledger import Head, Ledger

__all__ = ["Budget", "Entry", "Head", "Ledger", "Spent", "digest_of"]
