"""Which of the engines that work is taken: the fastest on a chunk, as measured, of those that have room for it.

Times differ from one measurement to the next, so an engine must be clearly faster than one that comes before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

CLEARLY = 1.5
"""An engine is taken instead of an earlier one if that takes so many times as long."""

TIMED = 64
"""Rows of the chunks on which engines are timed, at most."""

NEGLIGIBLE = 0.003
"""Seconds for a few random rows that are not worth a look at further engines."""

LONG = 0.2
"""Seconds that one call for the sake of timing may take, as far as can be foreseen."""

_ENOUGH, _TURNS = 0.02, 5
"""Seconds per engine after which there are no further turns, and how many there are at most."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An engine that works. `seconds`: per row. `chunk`: the rows that fit into the memory for a chunk."""

    name: str
    seconds: float
    chunk: int


def choose(candidates: Sequence[Candidate], chunk: int | None = None) -> Candidate:
    """The fastest, in the order of preference where there is no clear difference.

    `chunk`: rows that a chunk shall have. Engines without the memory for them are taken only if there is no other, and
    then the one that has memory for most.
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
    """What the choice was made by, in half a sentence."""
    times = ", ".join(f"{one.name} {one.seconds * 1e6:.3g}" for one in candidates)
    full = [one.name for one in candidates if chunk is not None and one.chunk < chunk]
    room = f", without memory for {chunk} rows: {', '.join(full)}" if full else ""
    return f"microseconds per row: {times}{room}"


def seconds(calls: Sequence[Callable[[], object]], device: torch.device) -> list[float]:
    """How long each call takes: the shortest of several, in turns, so that other work on the machine meets them all.
    The first may have to compile something."""
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
