"""Operators that reshape or reorder entries, take a part of them, or join tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from discreet.clipping.separation.labels import (
    EMPTY,
    MIXED,
    NUMBERS,
    SHARED,
    UNIFORM,
    Every,
    Label,
    Rows,
    as_rows,
    joined,
    moved,
    part_of_axis,
    reshaped,
    sized,
)
from discreet.clipping.separation.registry import Given, Value, entry_by_entry, rule


@rule("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "_reshape_copy", "flatten", "alias")
@rule("detach", "lift_fresh", "view_as_real", "view_as_complex", "real", "imag", "_conj", "_neg_view", "contiguous")
def same_entries(given: Given) -> Label:
    """The same entries in the same order, possibly in another shape or type."""
    first = given.first
    before, after = first.shape, given.shape
    if given["dtype"] is None and math.prod(before) == math.prod(after):
        return reshaped(first.label, before, after, given.batch)
    # Another type: neighbouring entries of the last axis become one number, or one number becomes several.
    label = as_rows(first.label, before, given.batch)
    if isinstance(label, Rows):
        limit = min(len(before), len(after)) - (len(before) == len(after))
        return label if label.axis < limit else MIXED
    return label if label == SHARED else MIXED


@rule("t", "transpose", "permute", "movedim", "swapaxes", "swapdims", "numpy_T", "adjoint", "mT")
def reordered(given: Given) -> Label:
    """The axes in another order."""
    first, dims = given.first, given.first.dims
    if given["dims"] is not None:
        order = [axis % dims for axis in given["dims"]]
    else:
        one, other = (0, 1) if given["dim0"] is None else (given["dim0"], given["dim1"])
        order = list(range(dims))
        if dims > 1:
            order[one], order[other] = order[other], order[one]
    return moved(first.label, order)


@rule("expand")
def expand(given: Given) -> Label:
    """Axes of length one, or new axes, become longer."""
    first, batch = given.first, given.batch
    new = len(given.shape) - first.dims
    longer = [i for i, length in enumerate(given.shape) if i < new or first.shape[i - new] != length]
    sizes = [axis for axis in longer if given.shape[axis] % batch == 0 and given.shape[axis]]
    if first.label == NUMBERS:
        return NUMBERS if not longer else MIXED
    label = as_rows(first.label, first.shape, batch) if longer else first.label  # entries are now copies of others
    if label == UNIFORM:
        return UNIFORM
    if isinstance(label, Rows):
        return MIXED if sizes else label._replace(axis=label.axis + new)
    if first.label != SHARED:
        return MIXED
    if not sizes:
        return SHARED
    return Rows(sizes[0], 1, given.shape[sizes[0]] // batch) if len(sizes) == 1 else MIXED


@rule("repeat")
def repeat(given: Given) -> Label:
    """The tensor, repeated along its axes."""
    first, batch, times = given.first, given.batch, given["repeats"]
    new = len(times) - first.dims
    shape = (1,) * new + first.shape
    often = [axis for axis, time in enumerate(times) if time % batch == 0 and time]
    label = as_rows(first.label, first.shape, batch)  # entries are now copies of others
    if isinstance(label, Rows):
        axis = label.axis + new
        return MIXED if often else Rows(axis, label.outer * times[axis], label.inner)
    if first.label != SHARED:
        return MIXED
    if not often:
        return SHARED
    axis = often[0]
    return Rows(axis, times[axis] // batch, shape[axis]) if len(often) == 1 else MIXED


@rule("slice", "narrow")
def slice_(given: Given) -> Label:
    """Some entries along an axis."""
    first, dim = given.first, (given["dim"] or 0) % given.first.dims
    length, after = first.shape[dim], given.shape[dim]
    start = min(max(_place(given["start"] or 0, length), 0), length)
    if length == after and (given["step"] or 1) == 1:
        return first.label
    along = isinstance(first.label, Rows) and first.label.axis == dim
    if given.grows and not along:
        return MIXED  # which entries are taken depends on the number of examples
    if first.label == SHARED:
        return SHARED
    if first.label == UNIFORM:
        return UNIFORM if sized(given.shape, given.batch) else SHARED
    if not isinstance(first.label, Rows):
        return MIXED
    if not along:
        return first.label
    if start and "start" not in given.grows:
        return MIXED  # a public place along the axis of the examples
    return part_of_axis(first.label, given.batch, start, start + after) if (given["step"] or 1) == 1 else MIXED


def _place(index: int, length: int) -> int:
    return index + length if index < 0 else index


@rule("select", "unbind")
def select(given: Given) -> Label:
    """One entry of an axis, or each in turn; the axis is removed."""
    first, dim = given.first, (given["dim"] or 0) % given.first.dims
    return without(first, [dim], given)


def without(first: Value, dims: Sequence[int], given: Given) -> Label:
    """The label of a tensor after one entry was taken along each of these axes, which are removed."""
    if first.label == SHARED:
        return SHARED
    if first.label == UNIFORM:
        return UNIFORM if any(sized(shape, given.batch) for shape in given.shapes) else SHARED
    if not isinstance(first.label, Rows) or first.label.axis in dims:
        return MIXED
    return first.label._replace(axis=first.label.axis - sum(dim < first.label.axis for dim in dims))


@rule("split", "split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "chunk", "unsafe_chunk", "tensor_split")
def split(given: Given) -> list[Label]:
    """Parts of an axis, one after the other."""
    first, dim = given.first, (given["dim"] or 0) % given.first.dims
    found: list[Label] = []
    start = 0
    for shape in given.shapes:
        stop = start + shape[dim]
        if isinstance(first.label, Rows) and first.label.axis == dim:
            if not given.grows and len(given.shapes) > 1:
                return [MIXED] * len(given.shapes)  # public places along the axis of the examples
            found.append(part_of_axis(first.label, given.batch, start, stop))
        else:
            plain = first.label in (SHARED, UNIFORM) or isinstance(first.label, Rows)
            found.append(first.label if plain and not given.grows else MIXED)
        start = stop
    return found


@rule("unfold", "unfold_copy")
def windows(given: Given) -> Label:
    """Windows along an axis; the entries of a window get a new last axis."""
    label = given.first.label
    if isinstance(label, Rows):
        return MIXED if label.axis == given["dimension"] % given.first.dims else label
    return label if label == SHARED else MIXED


@rule("diagonal")
def diagonal(given: Given) -> Label:
    """The diagonal of two axes, as a new last axis."""
    first = given.first
    dims = [given[name] % first.dims for name in ("dim1", "dim2")]
    return without(first, dims, given)


@rule("cat", "concat", "concatenate")
def cat(given: Given) -> Label:
    """Tensors one after the other along an axis."""
    parts = [one for one in given.tensors if math.prod(one.shape)]
    if not parts:
        return SHARED
    dim = (given["dim"] or 0) % len(given.shape)
    rows = {one.label for one in parts if isinstance(one.label, Rows)}
    if any(one.label not in (SHARED, UNIFORM) and not isinstance(one.label, Rows) for one in parts):
        return MIXED
    if not rows:
        return _of_one_kind([one.label for one in parts], given)
    if len(rows) > 1 and any(label.axis != dim for label in rows):
        return MIXED
    first = next(iter(rows))
    if first.axis != dim:
        return first if all(one.label != SHARED for one in parts) else MIXED
    inner, whole = first.inner, given.batch * first.inner
    if any(label.inner != inner for label in rows):
        return MIXED
    if any(one.label == SHARED or one.shape[dim] % whole for one in parts):
        return MIXED
    return Rows(dim, given.shape[dim] // whole, inner)


@rule("stack")
def stack(given: Given) -> Label:
    """Tensors side by side along a new axis."""
    parts, dim = given.tensors, (given["dim"] or 0) % len(given.shape)
    if any(one.label not in (SHARED, UNIFORM) and not isinstance(one.label, Rows) for one in parts):
        return MIXED
    rows = {one.label for one in parts if isinstance(one.label, Rows)}
    if not rows:
        return _of_one_kind([one.label for one in parts], given)
    first = next(iter(rows))
    if len(rows) > 1 or any(one.label == SHARED for one in parts):
        return MIXED
    return first._replace(axis=first.axis + (dim <= first.axis))


def _of_one_kind(labels: list[Label], given: Given) -> Label:
    if all(label == SHARED for label in labels):
        return MIXED if sized(given.shape, given.batch) and len(labels) % given.batch == 0 else SHARED
    dim = (given["dim"] or 0) % len(given.shape)
    return MIXED if dim in sized(given.shape, given.batch) else as_rows(UNIFORM, given.shape, given.batch)


@rule("constant_pad_nd", "pad")
def pad(given: Given) -> Label:
    """Constants before and behind the entries of the last axes."""
    widths = given["pad"]
    padded = [given.first.dims - 1 - i // 2 for i in range(0, len(widths), 2) if widths[i] or widths[i + 1]]
    label = given.rows(given.first)
    if isinstance(label, Rows):
        return MIXED if label.axis in padded else label
    return label if label == SHARED and not sized(given.shape, given.batch) else MIXED


@rule("clone", "_to_copy", "to", "type_as", "contiguous", "lift")
def copied(given: Given) -> Label:
    """The same entries in other memory or another type. Numbers of examples keep their label only as whole numbers."""
    label = given.first.label
    whole = given["dtype"] in (None, torch.int64, torch.int32)
    return label if whole or not (label == NUMBERS or isinstance(label, Every)) else MIXED


@rule("copy_", "copy")
def copied_into(given: Given) -> Label:
    """Entries, broadcast to the shape of a tensor, overwrite that tensor. If it was one number throughout, its label
    becomes that of the written examples."""
    source = given["src"]
    if given.first.label == EMPTY:
        label = joined([(source.label, source.shape)], given.shape, given.batch)
        broadcast = label == SHARED and sized(given.shape, given.batch)
        return as_rows(UNIFORM, given.shape, given.batch) if broadcast else label
    if isinstance(source.label, Rows) or given.first.label in (UNIFORM, SHARED):
        label = entry_by_entry(given)
        return label if given.first.label != SHARED or label == SHARED else MIXED
    return entry_by_entry(given)
