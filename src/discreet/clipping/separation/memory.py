"""What a model or a loss remembers beside its parameters, to see whether it changes: attributes, caches, buffers."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping.losses import is_of_torch
from discreet.clipping.separation.program import same

_PLAIN = (int, float, complex, str, bytes, bool, type(None), type)

_OF_TORCH = frozenset(
    {
        *("training", "_parameters", "_modules", "_is_full_backward_hook", "_non_persistent_buffers_set"),
        *("_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_state_dict_hooks", "_state_dict_pre_hooks"),
    }
)
"""Attributes of modules that are looked at elsewhere, or say nothing."""

_SMALL = 1 << 12
"""Tensors with no more numbers are compared number by number, larger ones by torch's count of writes."""


class Kept:
    """The buffers of a model and the memory of a loss, as they are now. Losses of torch have none."""

    def __init__(self, model: nn.Module, criterion: object) -> None:
        self._buffers = {name: (one, one._version, one.detach().clone()) for name, one in model.named_buffers()}
        self._loss = _of_loss(criterion)

    def is_kept(self, model: nn.Module, criterion: object) -> bool:
        """Whether they hold the same numbers as then."""
        buffers = dict(model.named_buffers())
        if buffers.keys() != self._buffers.keys() or _of_loss(criterion) != self._loss:
            return False
        for name, (before, version, value) in self._buffers.items():
            one = buffers[name]
            if not (one is before and one._version == version) and not same(one, value):
                return False
        return True


def _of_loss(criterion: object) -> list[Any]:
    return [] if is_of_torch(criterion) else memory_of(criterion)


def memory_of(*parts: object) -> list[Any]:
    """What can be compared of all that the modules and objects hold, in the order in which it is found.

    Parameters are left out, as are globals, closures, and what `__slots__` or other languages hold.
    """
    return list(_walk(parts, set()))


def _walk(value: object, seen: set[int]) -> Iterator[Any]:
    if isinstance(value, _PLAIN):
        yield value
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, nn.Parameter):
        yield id(value)
    elif isinstance(value, Tensor):
        yield from _of_tensor(value)
    elif isinstance(value, np.ndarray):
        yield (id(value), value.shape, value.tobytes() if value.dtype != object else None)
    elif isinstance(value, torch.Generator):
        yield value.get_state().numpy().tobytes()
    elif isinstance(value, random.Random):
        yield value.getstate()
    elif isinstance(value, np.random.Generator):
        yield str(value.bit_generator.state)
    elif isinstance(value, Mapping):
        yield len(value)
        for key, one in list(value.items()):
            yield key if isinstance(key, _PLAIN) else id(key)
            yield from _walk(one, seen)
    elif isinstance(value, list | tuple | deque):
        yield len(value)
        for one in list(value):
            yield from _walk(one, seen)
    elif isinstance(value, set | frozenset):
        yield sorted(map(repr, value))
    elif isinstance(value, nn.Module):
        for name, one in value.__dict__.items():
            if name not in _OF_TORCH:
                yield name
                yield from _walk(one, seen)
        for child in value._modules.values():
            yield from _walk(child, seen)
    else:
        yield id(value)
        for name, one in getattr(value, "__dict__", {}).items():
            yield name
            yield from _walk(one, seen)


def _of_tensor(tensor: Tensor) -> Iterator[Any]:
    yield id(tensor)
    yield tensor._version
    try:
        yield tensor.data_ptr()
        if tensor.numel() <= _SMALL:
            yield tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    except (RuntimeError, NotImplementedError, TypeError):
        yield None
