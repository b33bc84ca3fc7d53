"""The ledger: what was spent, durable before anything is drawn."""

from discreet.ledger.ledger import Ledger

__all__ = ["Ledger"]
