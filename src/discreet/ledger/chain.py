"""The hash chain: each entry seals all entries before it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from discreet.core.errors import LedgerError

GENESIS = "0" * 64

_SALT = "salt"
"""A random number in the entry of each start. No certificate has it, so that the seal of a later entry, which one has,
does not tell the times of the run to somebody who tries them out."""

CLOCK_TOLERANCE = timedelta(minutes=5)
"""The most by which the clock may be behind the last entry; hosts that share a ledger differ by less."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the ledger; `entries_table` explains the columns."""

    number: int
    kind: str
    dataset: str
    run: str
    attempt: int
    position: int
    steps: int
    body: str
    at: str
    previous: str
    hash: str

    @property
    def content(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    def seal(self) -> str:
        """SHA-256 over every field but the hash itself, as unambiguous JSON."""
        return hashlib.sha256(_encoded(_sealed(self)).encode()).hexdigest()


_sealed = attrgetter(*Entry.__slots__[:-1])
_encoded = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Head:
    """The length of the chain and the hash of its last entry."""

    entries: int
    hash: str


def next_entry(
    last: Entry | None,
    kind: str,
    body: object,
    *,
    dataset: str = "",
    run: str = "",
    attempt: int = 0,
    position: int = 0,
    steps: int = 0,
) -> Entry:
    """The entry that follows `last`. A clock that went back, or an edited last entry, is a `LedgerError`."""
    now = datetime.now(UTC)
    if last is not None:
        check_seal(last)
        if now < datetime.fromisoformat(last.at) - CLOCK_TOLERANCE:
            raise LedgerError(
                f"the clock says {now:%Y-%m-%d %H:%M:%S} UTC, before the last entry of the ledger ({last.at}); "
                "set the clock right and start again; nothing was charged"
            )
    number, previous = (0, GENESIS) if last is None else (last.number + 1, last.hash)
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    draft = Entry(number, kind, dataset, run, attempt, position, steps, text, now.isoformat(), previous, "")
    fields = {name: getattr(draft, name) for name in Entry.__slots__}
    return Entry(**{**fields, "hash": draft.seal()})


def salted(body: Mapping[str, object]) -> dict[str, object]:
    """The body of an entry, with a random number that stays in the ledger."""
    return {**body, _SALT: secrets.token_hex(16)}


def told(entry: Entry) -> Any:
    """The content of an entry without what stays in the ledger."""
    content = entry.content
    return {name: one for name, one in content.items() if name != _SALT} if isinstance(content, dict) else content


def check_seal(entry: Entry) -> None:
    """Raise `LedgerError` if the content of an entry does not match its hash."""
    try:
        intact = entry.seal() == entry.hash
    except (TypeError, ValueError):  # a column holds bytes, say, which the library never writes
        intact = False
    if not intact:
        raise LedgerError(
            f"entry {entry.number} of the ledger was edited after it was written; "
            "restore the ledger from a copy that `discreet ledger verify` accepts"
        )


def check_chain(entries: Iterable[Entry]) -> tuple[int, str]:
    """Walk a whole chain and return (number of entries, hash of the last). A cut or an edit is a `LedgerError`."""
    expected, previous = 0, GENESIS
    for entry in entries:
        if entry.number != expected or entry.previous != previous:
            raise LedgerError(
                f"the ledger is cut: entry {expected} is missing or does not follow the one before it; "
                "restore the ledger from a copy that `discreet ledger verify` accepts"
            )
        check_seal(entry)
        expected, previous = expected + 1, entry.hash
    return expected, previous


def public_record(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """A run's entries as a certificate may show them: without their times, which depend on private batch sizes, and
    without what would let somebody find them out."""
    return [
        {
            "run": entry.run,
            "kind": entry.kind,
            "attempt": entry.attempt,
            "position": entry.position,
            "steps": entry.steps,
            "body": told(entry),
        }
        for entry in entries
    ]


def record_digest(record: list[dict[str, Any]]) -> str:
    """SHA-256 of the canonical JSON of a public record."""
    return hashlib.sha256(json.dumps(record, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
