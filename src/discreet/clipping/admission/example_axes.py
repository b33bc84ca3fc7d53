"""Where the examples of a batch are in a tensor, and whether entries of other examples changed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROUNDINGS = 64
"""Numbers may change by this many roundings: kernels may add up in another order."""

_CANCELLED = 16
"""The largest ratio of a term to its sum that is assumed."""

_LOOKED_AT = 2**16
"""The size of the sample by which a median is estimated on a card, which computes medians slowly."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the examples are: along `axis`, with `each` entries per example."""

    axis: int
    each: int


SHARED, UNKNOWN = Place(-1, 1), Place(-1, 0)
"""`SHARED`: one value for all examples, which no example may change. `UNKNOWN`: the places cannot be determined."""


def place_of(whole: Tensor, short: Tensor, size: int, less: int) -> Place:
    """The axis whose length is proportional to the number of examples: `size` in `whole`, `less` in `short`."""
    if whole.shape == short.shape:
        return SHARED
    if whole.dim() == short.dim():
        for axis, (a, b) in enumerate(zip(whole.shape, short.shape, strict=True)):
            if a != b and a * less == b * size and a % size == 0:
                return Place(axis, a // size)
    return UNKNOWN


def strayed(before: Tensor, after: Tensor, place: Place, row: int, size: int) -> bool:
    """Whether anything but `row` changed by more than rounding. The entries of an example may be adjacent or apart."""
    if place == UNKNOWN:
        return False
    if before.shape != after.shape:
        return True
    if place == SHARED:
        return moved(before, after)
    one, other = (part.movedim(place.axis, 0) for part in (before, after))
    shapes = [(size, place.each)] if place.each == 1 else [(size, place.each), (place.each, size)]
    return all(_others_moved(_rows(one, shape, size), _rows(other, shape, size), row) for shape in shapes)


def _others_moved(one: Tensor, other: Tensor, row: int) -> bool:
    """`moved` for all rows but one."""
    around = slice(0, row), slice(row + 1, None)
    if one.dtype == other.dtype and all(torch.equal(one[part], other[part]) for part in around):
        return False  # the usual case, found without copying the rows
    keep = [i for i in range(len(one)) if i != row]
    return moved(one[keep], other[keep])


def _rows(part: Tensor, shape: tuple[int, int], size: int) -> Tensor:
    """The entries with the examples along axis 0."""
    unfolded = part.reshape(*shape, *part.shape[1:])
    return unfolded if shape[0] == size else unfolded.transpose(0, 1)


def is_whole(part: Tensor) -> bool:
    """Whether a tensor holds whole numbers or booleans."""
    return not (part.is_floating_point() or part.is_complex())


def times(part: Tensor, factor: float) -> Tensor:
    """A tensor times a factor; whole numbers, which may be tokens or labels, stay as they are."""
    return part if is_whole(part) else part * factor


def moved(before: Tensor, after: Tensor) -> bool:
    """Whether any number changed by more than rounding.

    The limit for a number follows from its own size, not from the largest number of the tensor: a constant of -1e9,
    which masks logits, would hide all other changes. Where terms cancel, rounding is that of the terms. These are
    assumed to have the median size of the numbers, but at most `_CANCELLED` times the number itself, since most numbers
    may be such constants.
    """
    if is_whole(before):
        return not torch.equal(before, after)
    if before.dtype == after.dtype and torch.equal(before, after):
        return False  # the usual case; the rest takes fifty times as long
    wide = torch.complex128 if before.is_complex() else torch.float64
    one, other = before.to(wide), after.to(wide)
    sizes = torch.maximum(one.abs(), other.abs())
    used = sizes[torch.isfinite(sizes) & (sizes > 0)]
    typical = _some(used).median() if used.numel() else sizes.new_zeros(())
    scale = torch.maximum(sizes, torch.minimum(typical, _CANCELLED * sizes))
    limits = torch.finfo(before.dtype)
    near = torch.isfinite(sizes) & ((one - other).abs() <= _ROUNDINGS * limits.eps * scale + limits.tiny)
    return not bool((near | (one == other) | (torch.isnan(one) & torch.isnan(other))).all())


def _some(values: Tensor) -> Tensor:
    """The values of a vector; on a card a fixed random sample of a long one."""
    if values.device.type == "cpu" or len(values) <= _LOOKED_AT:
        return values
    generator = torch.Generator(values.device).manual_seed(0)
    return values[torch.randint(len(values), (_LOOKED_AT,), device=values.device, generator=generator)]
