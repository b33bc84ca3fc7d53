"""The memory that an example takes in a chunk, for engines that run a chunk as a batch, and how many fit."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from discreet.clipping.capture.call import tensors_in
from discreet.clipping.capture.capture import capture
from discreet.clipping.losses import Criterion

_MEMORY, _SHARE_OF_CARD = 2**30, 8
"""Bytes of a chunk, at most. On a card it may take one part in so many of the card's memory, however much others use of
it: a choice that depends on the kind of card alone."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes per example. `values`: tensors that the backward pass or a rule will read. `gradients`: those of all
    outputs of modules with parameters. `largest`: the most of these gradients that one module has."""

    values: int
    gradients: int
    largest: int

    @property
    def bookkeeping(self) -> int:
        """Bytes per example for book-keeping, which holds all gradients at once."""
        return self.values + self.gradients

    @property
    def ghost(self) -> int:
        """Bytes per example for ghost clipping, which holds the gradients of one module at a time."""
        return self.values + self.largest

    def fitting(self, engine: str, device: torch.device) -> int:
        """The number of examples that a chunk of the engine has memory for; at least one."""
        memory = _MEMORY
        if device.type == "cuda":
            memory = max(memory, torch.cuda.get_device_properties(device).total_memory // _SHARE_OF_CARD)
        return max(1, memory // max(1, int(getattr(self, engine))))


def footprint(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> Footprint:
    """Measure the footprint by one forward and one backward pass. Errors are those of `capture`.

    Where torch lets nobody see what is saved, as in a model that uses `torch.func`, all that is made counts.
    """
    fixed = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    values: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        with suppress(RuntimeError, NotImplementedError):  # no array in memory
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in fixed:
                values[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()

    try:
        with saved_tensors_hooks(note, lambda tensor: tensor):
            calls = capture(model, criterion, inputs, targets)
    except RuntimeError as error:
        if "saved tensor hooks" not in str(error):
            raise
        with _Made(note):
            calls = capture(model, criterion, inputs, targets)
    for part in tensors_in([(call.args, call.kwargs) for call in calls]):
        note(part)
    modules: dict[str, int] = {}
    for call in calls:
        size = sum(part.numel() * part.element_size() for part in call.gradients if part is not None)
        modules[call.owner.name] = modules.get(call.owner.name, 0) + size
    rows = max(1, len(inputs))
    largest = max(modules.values(), default=0)
    return Footprint(sum(values.values()) // rows, sum(modules.values()) // rows, largest // rows)


class _Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands over every tensor that an operator makes."""

    def __init__(self, note: Callable[[Tensor], Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tree_map_only(Tensor, self._note, made)
        return made
