"""Memory of the host that a graphics card reads and writes fast: pinned, and kept by torch for its next use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from discreet.core.array_types import Array


def beside(device: torch.device, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A new tensor on the host, whose numbers are still to be written, for copies to or from the device."""
    return torch.empty(tuple(shape), dtype=dtype, pin_memory=device.type == "cuda")


def on_host(tensor: Tensor) -> Tensor:
    """The tensor if it is on the host, and otherwise a copy there."""
    if tensor.device.type == "cpu":
        return tensor
    return beside(tensor.device, tensor.shape, tensor.dtype).copy_(tensor)


class OnDevice(Mapping[str, Array]):
    """Arrays by name whose numbers lie on a device, as tensors (`there`). Whoever reads an array gets a copy on the
    host."""

    def __init__(self, there: Mapping[str, Tensor]) -> None:
        self.there = there

    def __getitem__(self, name: str) -> Array:
        found: Array = on_host(self.there[name]).numpy()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.there)

    def __len__(self) -> int:
        return len(self.there)
