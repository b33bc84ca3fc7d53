"""Which of the engines that work is taken: the fastest on a chunk, as measured, of those that have room for it.

Times differ from one measurement to the next, so an engine must be clearly faster than one that comes before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

CLEARLY = 1.5
"""An engine is taken instead of an earlier one if that takes so many times as long."""

TIMED = 64
"""Rows of the chunks on which engines are timed, at most."""

_ENOUGH, _CALLS = 0.02, 5
"""Seconds after which an engine is not called again, and how often it is called at most."""


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


def described(chosen: Candidate, candidates: Sequence[Candidate], chunk: int | None) -> str:
    """Why it was chosen, in half a sentence."""
    if len(candidates) == 1:
        return "the only one that works"
    times = ", ".join(f"{one.name} {one.seconds * 1e6:.3g}" for one in candidates)
    full = [one.name for one in candidates if chunk is not None and one.chunk < chunk]
    room = f"; no memory for {chunk} rows: {', '.join(full)}" if full else ""
    return f"chosen by microseconds per row: {times}{room}"


def seconds(call: Callable[[], object], device: torch.device) -> float:
    """How long a call takes: the shortest of several, if it is short."""
    found: list[float] = []
    while len(found) < _CALLS and sum(found) < _ENOUGH:
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        found.append(time.perf_counter() - start)
    return min(found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
