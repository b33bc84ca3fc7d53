"""What a model does with batches of random rows, for batches of every size, and the proof that it keeps rows apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from discreet.clipping.separation import rules
from discreet.clipping.separation.program import Ambiguous, Differs, Program, Template
from discreet.clipping.separation.propagate import Mixes, prove
from discreet.clipping.separation.recorder import Recorder

FEWEST = 5
"""Rows of the smallest batch that a proof is about: a model may do something else with one alone."""

_SIZES = (FEWEST, 7, 11, 13, 17, 19, 23, 29, 31)
"""Sizes of the batches that are looked at, until one is no divisor of a size that has nothing to do with it."""


Run = Callable[[int], None]
"""Runs a model, there and back, on so many random rows."""

__all__ = ["Mixes", "Run", "examined", "proved", "recorded", "rules"]


def recorded(run: Run, rows: int, items: Sequence[Any] = ()) -> list[Program]:
    """The programs that `run` goes through on `rows` rows; `items`: what numbers that Python reads are said to be."""
    recorder = Recorder(items, closely=True)
    with recorder.recording():
        run(rows)
    return recorder.programs


def examined(run: Run, items: Sequence[Any] = ()) -> Template:
    """What `run` does with batches of any size. `Mixes` if that cannot be told, or is not proved to keep rows apart."""
    for small, large in itertools.pairwise(_SIZES):
        first, *again = recorded(run, small, items)
        other, *_ = recorded(run, large, first.items)
        try:
            template = Template(first, other)
        except Ambiguous:
            continue
        except Differs as error:
            raise Mixes(first.fault or other.fault or str(error)) from None
        prove(template)
        if not all(template.matches(one) for one in again):
            raise Mixes("a second pass over the same rows does something else")
        if not all(template.matches(one) for one in recorded(run, large + 1, first.items)):
            raise Mixes("what it does depends on how many examples there are, or were before")
        return template
    raise Mixes("its sizes are multiples of every size of a batch that was tried")


def proved(run: Run) -> Template:
    """What `run` does with batches of any size, once it has made what it makes at its first call. `Mixes` as above."""
    run(1)
    return examined(run)
