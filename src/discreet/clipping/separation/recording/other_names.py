"""Other names of a parameter: tensors in its memory, or in its gradient's way, that a record does not trace to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from discreet.clipping.separation.recording.program import Op, Ref

Key = tuple[Any, ...]
"""The address of a tensor, its type, whether its numbers are conjugate or negative, and all its lengths and strides."""


def key_of(tensor: Tensor) -> Key:
    """The key of a tensor; an error if it is no array in memory."""
    return tensor.data_ptr(), tensor.dtype, tensor.is_conj(), tensor.is_neg(), *tensor.shape, *tensor.stride()


def in_one_memory(tensors: Iterable[Tensor]) -> set[int]:
    """The ids of those tensors that have memory in common with another one."""
    found: set[int] = set()
    reach, last = 0, 0
    for start, end, key in sorted((*_extent(one), id(one)) for one in tensors):
        if start < reach:
            found |= {key, last}
        if end > reach:
            reach, last = end, key
    return found


def _extent(tensor: Tensor) -> tuple[int, int]:
    """The addresses where a tensor begins and ends; the same one where it has no memory."""
    start = tensor.data_ptr() if tensor.layout is torch.strided else 0
    if not start or not tensor.numel():
        return 0, 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return start, start + tensor.element_size() * (1 + sum((length - 1) * stride for length, stride in steps))


def place_of(tensor: Tensor) -> int:
    """The address of the memory that a tensor is a part of; -1 if it is no array in memory."""
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return -1


def shares_memory(tensor: Tensor) -> bool:
    """Whether another tensor has the memory of this one."""
    return _holders(tensor) > _holders(torch.empty(1))


def _holders(tensor: Tensor) -> int:
    """How often the memory of a tensor is held, while it is looked at."""
    return int(torch._C._storage_Use_Count(tensor.untyped_storage()._cdata))


def gradients_are_traced(ops: Sequence[Op], parameters: Collection[Ref]) -> bool:
    """Whether each tensor of a forward pass that needs a gradient is a parameter, or was made of such tensors. One that
    the model keeps is not, nor one that is taken for another in the same place of memory."""
    carrying: set[int] = set()
    for number, op in enumerate(ops):
        needing = [] if op.back else [one.ref for one in op.tensors if one.grad]
        if not all(
            ref in parameters or ref.kind == "empty" or (ref.kind == "made" and ref.at in carrying) for ref in needing
        ):
            return False
        if needing:
            carrying.add(number)
    return True


def is_same_view(tensor: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> bool:
    """Whether a tensor with these lengths and strides has each entry where it has it now. Strides of axes of length one
    play no part; adaptive pooling to one place sets them."""
    strides = [(now, then) for length, now, then in zip(size, tensor.stride(), stride, strict=False) if length > 1]
    same = tuple(size) == tensor.shape and all(now == then for now, then in strides)
    return same and storage_offset in (None, tensor.storage_offset())
