"""Faults of the library, planted to prove that they would be found."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def _plant_key_without_fresh_bytes() -> None:
    from discreet.randomness import stream

    stream.os = _Dull()  # type: ignore[attr-defined]


class _Dull:
    """`os` with an operating system that always says the same."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @staticmethod
    def urandom(count: int) -> bytes:
        return bytes(count)


def _plant_position_of_the_checkpoint() -> None:
    """The ledger believes the checkpoint instead of its own entries."""
    from discreet.ledger import ledger
    from discreet.training.run import opening

    kept = [0]
    load = opening.load_checkpoint

    def remembering(path: Path) -> Any:
        checkpoint = load(path)
        if checkpoint is not None:
            kept[0] = checkpoint.position
        return checkpoint

    opening.load_checkpoint = remembering  # type: ignore[assignment]

    def charged(_self: Any, _connection: Any, _run: str) -> int:
        return kept[0]

    assert hasattr(ledger.Ledger, "_charged_so_far")
    ledger.Ledger._charged_so_far = charged  # type: ignore[method-assign]
    reserve = ledger.Ledger.reserve

    def counting(self: Any, *args: Any) -> Any:
        receipts = reserve(self, *args)
        kept[0] = receipts[-1].position + 1
        return receipts

    ledger.Ledger.reserve = counting  # type: ignore[method-assign]


def _plant_reserve_without_commit() -> None:
    """Receipts are handed out and the transaction is undone."""
    from discreet.ledger import ledger

    reserve, made = ledger.Ledger.reserve, [0]

    class Undo(Exception):
        pass

    def undone(self: Any, run: str, attempt: int, admission: Any) -> Any:
        kept = self._store.transaction
        receipts: list[Any] = []

        @contextlib.contextmanager
        def transaction() -> Iterator[Any]:
            with kept() as connection:
                yield connection
                raise Undo

        def shifted(position: int) -> Any:
            events = admission(position + made[0])
            receipts.extend(ledger.Receipt(run, attempt, position + made[0] + i, e) for i, e in enumerate(events))
            return events

        self._store.transaction = transaction
        with contextlib.suppress(Undo):
            reserve(self, run, attempt, shifted)
        self._store.transaction = kept
        made[0] += len(receipts)
        return tuple(receipts)

    ledger.Ledger.reserve = undone  # type: ignore[method-assign]


PLANTS = {
    "key without fresh bytes": _plant_key_without_fresh_bytes,
    "position of the checkpoint": _plant_position_of_the_checkpoint,
    "reserve without commit": _plant_reserve_without_commit,
}
