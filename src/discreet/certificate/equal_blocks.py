"""Blocks of a ledger's record that repeat, as one entry of the certificate.

A long run charges a thousand equal blocks of steps, and releases each before the next. Entries

    {"kind": "reservation", "position": p, "steps": s, "body": e, ...}, {"kind": "release", "position": p + s, ...}

that follow each other `times` times, each pair s steps after the one before and otherwise equal, are written as one:
`{"kind": "blocks", "position": p, "steps": s, "body": e, "times": times, ...}`. The record's digest is that of all
entries, each by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.certificate.canonical import canonical
from discreet.core.errors import InputError

MOST, MOST_BYTES = 2**20, 2**29
"""The most entries that are written out, and the most bytes of canonical JSON, a release counted like its charge: a
short file must not fill a reader's memory."""

Row = dict[str, Any]


def shortened(record: Sequence[Row]) -> list[Row]:
    """The record with at least two equal blocks in a row as one entry."""
    found: list[Row] = []
    place = 0
    while place < len(record):
        row, times = record[place], _times(record, place)
        if times > 1:
            found.append(row | {"kind": "blocks", "times": times})
            place += 2 * times
        else:
            found.append(row)
            place += 1
    return found


def written_out(record: Sequence[Row]) -> list[Row]:
    """The record with every entry by itself. `InputError` where a count is none, or would fill the memory."""
    found: list[Row] = []
    room = MOST_BYTES
    for row in record:
        if row["kind"] != "blocks":
            found.append(row)
            continue
        times, position, steps = (row[name] for name in ("times", "position", "steps"))
        if not all(type(count) is int for count in (times, position, steps)) or times < 2 or steps < 1:
            raise InputError("blocks of the ledger are repeated at least twice, and hold whole steps")
        room -= 2 * times * len(canonical(row))
        if len(found) + 2 * times > MOST or room < 0:
            raise InputError(f"the ledger's record has more than {MOST:,} entries, or {MOST_BYTES:,} bytes")
        charged = {name: value for name, value in row.items() if name != "times"} | {"kind": "reservation"}
        for start in range(position, position + times * steps, steps):
            found += charged | {"position": start}, _release(charged, start + steps)
    return found


def _times(record: Sequence[Row], place: int) -> int:
    """The number of equal blocks that follow each other from `place` on."""
    first = record[place]
    if first["kind"] != "reservation" or first["steps"] < 1:
        return 0
    times = 0
    while (at := place + 2 * times) + 1 < len(record):
        start = first["position"] + times * first["steps"]
        if record[at] != first | {"position": start} or record[at + 1] != _release(first, start + first["steps"]):
            break
        times += 1
    return times


def _release(charged: Mapping[str, Any], position: int) -> Row:
    """The entry that says that a block was released, up to `position`."""
    return {**charged, "kind": "release", "position": position, "steps": 0, "body": {}}
