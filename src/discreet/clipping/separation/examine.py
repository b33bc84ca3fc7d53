"""From runs on random rows: a model's program for batches of every size, and the proof that it keeps rows apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from discreet.clipping.separation import rules
from discreet.clipping.separation.proof import prove
from discreet.clipping.separation.propagate import Mixes
from discreet.clipping.separation.recording.program import AFTER_ERROR, Ambiguous, Differs, Program, Template
from discreet.clipping.separation.recording.recorder import Recorder, as_proved
from discreet.core.errors import CANNOT_TAKE

FEWEST = 5
"""The rows of the smallest batch that a proof covers: a model may treat a single row differently."""

_SIZES = (FEWEST, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73)
"""The batch sizes to try in turn, until one divides no unrelated size of the model by chance. DenseNets have
channels in all multiples of 32 or 48 up to 2,208, and each prime up to 59 divides one."""


Run = Callable[[int], None]
"""Runs the forward and backward pass of a model on this number of random rows."""

__all__ = ["Mixes", "Run", "examined", "proved", "recorded", "rules"]


def recorded(run: Run, rows: int, items: Sequence[Any] = ()) -> list[Program]:
    """The programs that `run` executes on `rows` rows; `items`: the values that Python gets when it reads numbers.

    `Mixes` where it fails and could not be followed before, as with nested tensors.
    """
    recorder = Recorder(items, closely=True)
    try:
        with recorder.recording():
            run(rows)
    except CANNOT_TAKE as error:
        fault = recorder.programs[-1].fault if recorder.programs else None
        if fault is not None and AFTER_ERROR not in fault:
            raise Mixes(fault) from error
        raise
    return recorder.programs


def examined(run: Run, items: Sequence[Any] = ()) -> Template:
    """The program of `run` for batches of any size; `Mixes` if there is no single one, or no proof for it."""
    unrelated: set[int] = set()
    for small, large in itertools.pairwise(_SIZES):
        if any(length % small == 0 for length in unrelated):
            continue
        first, *again = recorded(run, small, items)
        other, *_ = recorded(run, large, first.items)
        if (fault := first.fault or other.fault) is not None:
            raise Mixes(fault)
        try:
            template = Template(first, other)
        except Ambiguous:
            unrelated |= _unrelated(first, other)
            continue
        except Differs as error:
            raise Mixes(str(error)) from None
        prove(template)
        if not all(template.matches(one) for one in again):
            raise Mixes("a second pass over the same rows does something else")
        with as_proved(template.one.broadcast):  # one more row may be as many as a constant has
            more = recorded(run, large + 1, first.items)
        if not all(map(template.matches, more)):
            raise Mixes("what it does depends on how many examples there are, or were before")
        return template
    raise Mixes("its sizes are multiples of every size of a batch that was tried")


def _unrelated(one: Program, other: Program) -> set[int]:
    """The lengths of tensors that are the same in the programs for two batch sizes."""
    found: set[int] = set()
    for some, others in zip(one.seen, other.seen, strict=True):
        for before, after in zip(some.shapes, others.shapes, strict=False):
            found.update(length for length, again in zip(before, after, strict=False) if length == again and length)
    return found


def proved(run: Run) -> Template:
    """`examined`, after one run on a single row, so that a model has created whatever it creates at its first call."""
    run(1)
    return examined(run)
