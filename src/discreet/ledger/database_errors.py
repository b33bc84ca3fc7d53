"""Errors of the database under a ledger, each with advice for the user."""

from __future__ import annotations

from discreet.core.errors import LedgerError

_HINTS = {
    "could not decode": "an entry was edited, or the disk lost a bit; restore the ledger from a copy that "
    "`discreet ledger verify` accepts",
    "no space left": "free some space and start again",
    "name too long": "give it a shorter one",
    "input/output": "check the disk",
    "readonly": "make the folder and the file writable",
    "unable to open": "check that the folder exists and can be written",
    "disk is full": "free some space and start again",
    "disk i/o": "check the disk; a full one is reported so too",
    "locked": "another process holds it; stop that process, or wait and start again",
    "lock timeout": "another process holds it; stop that process, or wait and start again",
    "not a database": "the file is not a ledger; name another one",
    "malformed": "the file is damaged; restore it from a copy",
    "unique": "the ledger was edited; restore it from a copy that `discreet ledger verify` accepts",
    "permission denied": "ask for the right to create, read and insert into the table",
    "connection": "check that the server runs and the address is right",
}
"""By a part of the message, in lower case; the first that fits."""


def explained(error: Exception, ledger: str) -> LedgerError:
    """The error of a ledger, with what its database said, or its disk, and what to do."""
    cause = " ".join(str(getattr(error, "orig", None) or error).split())
    if isinstance(error, OSError):
        cause = f"unable to open or make it: {error.strerror}"
    hint = next((hint for sign, hint in _HINTS.items() if sign in cause.lower()), "see the message")
    return LedgerError(f"cannot use the ledger {ledger}: {cause}; {hint}; nothing was released without a charge")
