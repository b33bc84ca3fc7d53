"""Where the examples of a batch are in a tensor, and whether what belongs to other examples moved."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_ROUNDINGS = 64
"""Numbers may move by so many roundings: kernels may add up in another order."""

_CANCELLED = 16
"""How much larger than a number the terms may be that it was added up from."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the examples are: along `axis`, `each` entries for one."""

    axis: int
    each: int


SHARED, UNKNOWN = Place(-1, 1), Place(-1, 0)
"""One value for all examples, which none may move; and places that cannot be told."""


def place_of(whole: Tensor, short: Tensor, size: int, less: int) -> Place:
    """The axis whose length goes with the number of examples."""
    if whole.shape == short.shape:
        return SHARED
    if whole.dim() == short.dim():
        for axis, (a, b) in enumerate(zip(whole.shape, short.shape, strict=True)):
            if a != b and a * less == b * size and a % size == 0:
                return Place(axis, a // size)
    return UNKNOWN


def strayed(before: Tensor, after: Tensor, place: Place, row: int, size: int) -> bool:
    """Whether anything but `row` moved by more than rounding. Entries of an example may be side by side, or apart."""
    if place == UNKNOWN:
        return False
    if before.shape != after.shape:
        return True
    if place == SHARED:
        return moved(before, after)
    one, other = (part.movedim(place.axis, 0) for part in (before, after))
    keep = [i for i in range(size) if i != row]
    shapes = [(size, place.each)] if place.each == 1 else [(size, place.each), (place.each, size)]
    return all(moved(_rows(one, shape, size)[keep], _rows(other, shape, size)[keep]) for shape in shapes)


def _rows(part: Tensor, shape: tuple[int, int], size: int) -> Tensor:
    """The entries with the examples along axis 0."""
    unfolded = part.reshape(*shape, *part.shape[1:])
    return unfolded if shape[0] == size else unfolded.transpose(0, 1)


def is_whole(part: Tensor) -> bool:
    """Whether a tensor is of whole numbers, or truth values."""
    return not (part.is_floating_point() or part.is_complex())


def moved(before: Tensor, after: Tensor) -> bool:
    """Whether any number moved by more than rounding.

    Each is held to its own size, not to that of the largest one beside it: a constant of -1e9, which masks logits,
    would hide whatever the others do. Where terms cancel, rounding is that of the terms: of the median size, but not of
    much more than the number's own, for most numbers may be such constants.
    """
    if is_whole(before):
        return not torch.equal(before, after)
    if before.dtype == after.dtype and torch.equal(before, after):
        return False  # nearly always; the rest takes fifty times as long
    wide = torch.complex128 if before.is_complex() else torch.float64
    one, other = before.to(wide), after.to(wide)
    sizes = torch.maximum(one.abs(), other.abs())
    used = sizes[torch.isfinite(sizes) & (sizes > 0)]
    typical = used.median() if used.numel() else sizes.new_zeros(())
    scale = torch.maximum(sizes, torch.minimum(typical, _CANCELLED * sizes))
    limits = torch.finfo(before.dtype)
    near = torch.isfinite(sizes) & ((one - other).abs() <= _ROUNDINGS * limits.eps * scale + limits.tiny)
    return not bool((near | (one == other) | (torch.isnan(one) & torch.isnan(other))).all())
