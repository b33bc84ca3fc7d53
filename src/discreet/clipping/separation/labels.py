"""Where the examples of a batch are in a tensor: the label that each tensor of a program is given.

| label | what is at each place |
|---|---|
| `SHARED` | the same for every batch: weights, constants, random numbers that all examples have in common |
| `UNIFORM` | one number, or numbers drawn independently, in a shape that has the size of the batch in it |
| `Rows(axis, outer, inner)` | entries of one example, and what they are depends on that example alone |
| `NUMBERS` | 0, 1, 2, ... along the batch: good for picking something from each row, and for nothing else |
| `Every(step)` | 0, step, 2 step, ... along the batch: where the entries of each example begin |
| `EMPTY` | whatever the memory held before: to be written over, as a whole |
| `MIXED` | anything else: several examples, their number, or their order |

In `Rows`, the length of `axis` is outer x batch x inner, the examples in the middle: a reshape may have put other axes
before and behind them. All this is about any example at any place of a batch of any size; random numbers count as the
same if they have the same law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Shape = Sequence[int]


class Rows(NamedTuple):
    """Examples along `axis`, in the middle of outer x batch x inner entries."""

    axis: int
    outer: int = 1
    inner: int = 1


class Every(NamedTuple):
    """Multiples of `step`, one for each example."""

    step: int


SHARED, UNIFORM, NUMBERS, EMPTY, MIXED = "shared", "uniform", "numbers", "empty", "mixed"

Label = Rows | Every | str

BATCH = Rows(0)
"""Examples along the first axis: how they come, and how a loss needs them."""


def sized(shape: Shape, batch: int) -> list[int]:
    """The axes whose length may come from the size of the batch."""
    return [axis for axis, length in enumerate(shape) if length % batch == 0 and length]


def as_rows(label: Label, shape: Shape, batch: int) -> Label:
    """A label that says where the examples are, of a tensor that is one number throughout: it has them anywhere."""
    if label != UNIFORM:
        return label
    axes = sized(shape, batch)
    return Rows(axes[0], 1, shape[axes[0]] // batch) if len(axes) == 1 else MIXED


def reshaped(label: Label, before: Shape, after: Shape, batch: int) -> Label:
    """The label of a tensor whose entries, in order, are given another shape."""
    if label == UNIFORM:
        return UNIFORM if sized(after, batch) else SHARED
    if label == NUMBERS:
        return NUMBERS if sorted(after)[-1:] == [batch] and math.prod(after) == batch else MIXED
    if not isinstance(label, Rows):
        return SHARED if label == SHARED else MIXED
    stride = label.inner * math.prod(before[label.axis + 1 :])  # from an example to the next
    behind = 1
    for axis in range(len(after) - 1, -1, -1):
        length = after[axis]
        if behind * length >= stride * batch and stride % behind == 0:
            inner = stride // behind
            return Rows(axis, length // (batch * inner), inner) if length % (batch * inner) == 0 else MIXED
        behind *= length
    return MIXED


def part_of_axis(label: Rows, batch: int, start: int, stop: int) -> Label:
    """The label of entries start .. stop - 1 of the axis with the examples: whole batches, or nothing that has one."""
    whole = batch * label.inner
    if start % whole or stop % whole or stop <= start:
        return MIXED
    return label._replace(outer=(stop - start) // whole)


def moved(label: Label, order: Sequence[int]) -> Label:
    """The label after a permutation: axis i of the result is axis order[i] of the tensor."""
    if isinstance(label, Rows):
        return label._replace(axis=list(order).index(label.axis))
    return label if label in (SHARED, UNIFORM) else MIXED


def joined(labels: Sequence[tuple[Label, Shape]], shape: Shape, batch: int) -> Label:
    """The label of numbers computed entry by entry from tensors that are broadcast to `shape`."""
    found: Label = SHARED
    plain: list[Shape] = []
    for label, given in labels:
        if label == SHARED:
            plain.append(given)
            continue
        if label == UNIFORM and tuple(given) != tuple(shape):
            label = as_rows(UNIFORM, given, batch) if sized(given, batch) else SHARED  # it is broadcast
        if label == UNIFORM:
            found = UNIFORM if found == SHARED else found
        elif not isinstance(label, Rows):
            return MIXED
        else:
            label = label._replace(axis=label.axis + len(shape) - len(given))
            if (isinstance(found, Rows) and found != label) or given[label.axis - len(shape)] != shape[label.axis]:
                return MIXED
            found = label
    if found == UNIFORM and any(math.prod(given) > 1 for given in plain):
        found = as_rows(UNIFORM, shape, batch)
    if isinstance(found, Rows):
        if sized(shape, batch) != [found.axis]:
            return MIXED  # made as long as the batch along another axis too
        behind = len(shape) - found.axis
        if any(len(given) >= behind and given[-behind] != 1 for given in plain):
            return MIXED  # as many constants as there are entries along the examples
    return found
