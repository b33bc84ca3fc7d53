"""Labels: where the examples of a batch are in a tensor. Each tensor of a program gets one.

| label | the entries of the tensor |
|---|---|
| `SHARED` | the same for every batch: weights, constants, random numbers that all examples have in common |
| `UNIFORM` | one number throughout, or numbers drawn independently, in a shape that depends on the batch size |
| `Rows(axis, outer, inner)` | each entry belongs to one example and depends on that example alone |
| `NUMBERS` | 0, 1, 2, ... along the batch: may only be used to pick something from each row |
| `Every(step)` | 0, step, 2 step, ... along the batch: where the entries of each example begin |
| `EMPTY` | whatever the memory held before; must be overwritten as a whole |
| `MIXED` | anything else: several examples, their number, or their order |

In `Rows`, the length of `axis` is outer x batch x inner with the examples in the middle, since a reshape may have put
other axes before and behind them. Labels hold for any example at any place of a batch of any size; random numbers count
as the same if they have the same law.
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
"""Examples along the first axis: the label of the inputs, and of the outputs that a loss needs."""


def sized(shape: Shape, batch: int) -> list[int]:
    """The axes whose length is a positive multiple of the batch size, so may depend on it."""
    return [axis for axis, length in enumerate(shape) if length % batch == 0 and length]


def as_rows(label: Label, shape: Shape, batch: int) -> Label:
    """The label, with `UNIFORM` turned into `Rows` along the only axis sized by the batch, or else into `MIXED`."""
    if label != UNIFORM:
        return label
    axes = sized(shape, batch)
    return Rows(axes[0], 1, shape[axes[0]] // batch) if len(axes) == 1 else MIXED


def reshaped(label: Label, before: Shape, after: Shape, batch: int) -> Label:
    """The label of a tensor after a reshape that keeps the order of its entries."""
    if label == UNIFORM:
        return UNIFORM if sized(after, batch) else SHARED
    if label == NUMBERS:
        return NUMBERS if sorted(after)[-1:] == [batch] and math.prod(after) == batch else MIXED
    if not isinstance(label, Rows):
        return SHARED if label == SHARED else MIXED
    stride = label.inner * math.prod(before[label.axis + 1 :])  # entries from one example to the next
    behind = 1
    for axis in range(len(after) - 1, -1, -1):
        length = after[axis]
        if behind * length >= stride * batch and stride % behind == 0:
            inner = stride // behind
            return Rows(axis, length // (batch * inner), inner) if length % (batch * inner) == 0 else MIXED
        behind *= length
    return MIXED


def part_of_axis(label: Rows, batch: int, start: int, stop: int) -> Label:
    """The label of entries start .. stop - 1 of the axis with the examples: `MIXED` unless they are whole batches."""
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
            return MIXED  # another axis is a multiple of the batch size too
        behind = len(shape) - found.axis
        if any(len(given) >= behind and given[-behind] != 1 for given in plain):
            return MIXED  # constants that differ along the axis of the examples
    return found
