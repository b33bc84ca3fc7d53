"""The states of torch's generators: to run something twice with the same random numbers, and to see them drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from copy import copy

import torch
from torch import Tensor


class Generators:
    """The states of torch's generators: that of the CPU, and those of the GPUs on which the tensors are."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        # Before torch uses a GPU, no tensor is on one, so that there is nothing to walk through.
        used: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self._devices = sorted({tensor.device.index for tensor in tensors if tensor.is_cuda}) if used else []
        self._states = self._now()

    def rewind(self) -> None:
        """Restore the states that the generators had when this was made."""
        first, *others = self._states
        torch.set_rng_state(first)
        for device, state in zip(self._devices, others, strict=True):
            torch.cuda.set_rng_state(state, device)

    def renew(self) -> None:
        """Remember the states of now."""
        self._states = self._now()

    def now(self) -> Generators:
        """The states of now of the same generators."""
        other = copy(self)
        other.renew()
        return other

    def are_kept(self) -> bool:
        """Whether the generators are in the states remembered."""
        return all(torch.equal(one, now) for one, now in zip(self._states, self._now(), strict=True))

    def read(self) -> bytes:
        """A digest of the states in which the generators are now."""
        found = hashlib.sha256()
        for state in self._now():
            found.update(state.numpy().tobytes())
        return found.digest()

    def _now(self) -> list[Tensor]:
        return [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in self._devices)]
