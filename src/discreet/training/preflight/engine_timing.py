"""The choice among engines that work: the fastest measured on a chunk, of those that have memory for it.

Measured times vary, so an engine must be clearly faster than the ones before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

CLEARLY = 1.5
"""An engine replaces an earlier one if the earlier one takes this many times as long."""

TIMED = 64
"""Rows of the chunks on which engines are timed, at most."""

NEGLIGIBLE = 0.003
"""If a few random rows take no more than so many seconds, further engines are not tried."""

LONG = 0.2
"""The expected seconds that a single timing call may take at most."""

_ENOUGH, _TURNS = 0.02, 5
"""Seconds per engine after which no further turn is taken, and the most turns."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine that works. `seconds`: per row. `chunk`: the rows that fit into the memory for a chunk."""

    name: str
    seconds: float
    chunk: int


def choose(candidates: Sequence[Candidate], chunk: int | None = None) -> Candidate:
    """The fastest, in the order of preference where there is no clear difference.

    `chunk`: the wanted rows of a chunk. Engines without the memory for them are taken only if there is no other; then
    the one with room for most rows.
    """
    fitting = [one for one in candidates if chunk is None or one.chunk >= chunk]
    if not fitting:
        return max(candidates, key=lambda one: one.chunk)
    best, *others = fitting
    for other in others:
        if other.seconds * CLEARLY < best.seconds:
            best = other
    return best


def described(candidates: Sequence[Candidate], chunk: int | None = None) -> str:
    """Half a sentence on how the choice was made."""
    times = ", ".join(f"{one.name} {one.seconds * 1e6:.3g}" for one in candidates)
    full = [one.name for one in candidates if chunk is not None and one.chunk < chunk]
    room = f", without memory for {chunk} rows: {', '.join(full)}" if full else ""
    return f"microseconds per row: {times}{room}"


def seconds(calls: Sequence[Callable[[], object]], device: torch.device) -> list[float]:
    """Seconds of each call: the shortest of several. Calls take turns, so that other work on the machine slows all
    alike; the first may have to compile something."""
    shortest, total = [math.inf] * len(calls), 0.0
    for turn in range(_TURNS):
        if turn >= 2 and total > _ENOUGH * len(calls):
            break
        for number, call in enumerate(calls):
            _wait(device)
            start = time.perf_counter()
            call()
            _wait(device)
            taken = time.perf_counter() - start
            shortest[number], total = min(shortest[number], taken), total + taken
    return shortest


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
