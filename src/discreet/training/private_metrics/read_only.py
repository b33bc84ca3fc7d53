"""A guard for running private rows through a model: they may not write to it, neither to published tensors nor for
later rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.separation.memory import same_values
from discreet.core.errors import PrivacyViolation


@contextmanager
def read_only(model: nn.Module) -> Iterator[None]:
    """A context in which private rows may be run through `model`, in evaluation mode; afterwards its tensors are
    restored.

    `PrivacyViolation` if a tensor was written to, even through `.data`, which torch does not count: then results for a
    row depend on the rows before it. A model that shares memory with this one is restored, too.
    """
    before = named_tensors(model).together
    kept = [(tensor, tensor.data, tensor.detach().clone()) for tensor in before.values()]
    changed: list[str] = []
    try:
        yield
    finally:
        after = named_tensors(model).together
        for name, (tensor, memory, value) in zip(before, kept, strict=True):
            if after.get(name) is not tensor or not same_values(tensor.detach(), value):
                changed.append(name)
                with torch.no_grad():
                    memory.copy_(value)
                    tensor.data = memory
    if changed or set(after) != set(before):
        raise PrivacyViolation(
            f"a forward pass over private rows changed {(changed or sorted(set(after) ^ set(before)))[0]!r} of the "
            "model in evaluation mode, so that rows influence each other and what is published; remove what writes "
            "to it. Nothing was released"
        )
