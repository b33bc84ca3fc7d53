"""Initial weights of networks: drawn from a declared seed, or loaded from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from discreet.core.errors import InputError


@contextmanager
def drawn(seed: int) -> Iterator[None]:
    """A context in which weights are drawn from a declared seed; afterwards torch's generator is restored."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def load_weights(network: nn.Module, file: str, leave_out: Sequence[str] = ()) -> None:
    """Fill the parameters and buffers of `network` from a safetensors file, except names that begin with `leave_out`.

    Further tensors of the file are ignored. A missing tensor, or one of another shape, is an `InputError`.
    """
    try:
        found = load_file(Path(file))
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read weights from {file} (a safetensors file is needed): {error}") from None
    wanted = {name: value for name, value in network.state_dict().items() if not name.startswith(tuple(leave_out))}
    for name, value in wanted.items():
        shape = tuple(found[name].shape) if name in found else None
        if shape != tuple(value.shape):
            has = "nothing" if shape is None else f"shape {shape}"
            raise InputError(f"{file} has {has} under {name}, and shape {tuple(value.shape)} is needed")
    network.load_state_dict({name: found[name] for name in wanted}, strict=False)
