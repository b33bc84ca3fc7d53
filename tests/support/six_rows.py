"""Six examples, networks in double precision, and the sums that engines make of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.engines import ghost

CLIP = Clip(0.5, 2.0**-30)


LABELS = torch.arange(6) % 3


def sums(engine: str, model: nn.Module, inputs: Tensor, loss: Any = None, *, seed: int = 0) -> dict[str, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ENGINES[engine].clipped_sum(model, loss or nn.CrossEntropyLoss(), Chunk(inputs, LABELS), CLIP)


def data(*shape: int) -> Tensor:
    return torch.randn(6, *shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in other)


def network(*layers: nn.Module) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        for layer in layers:
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    return nn.Sequential(*layers).double()


def dropped() -> nn.Module:
    return network(nn.Linear(8, 7), nn.Dropout(0.5), nn.Tanh(), nn.Linear(7, 5), nn.Dropout(0.3), nn.Linear(5, 3))


def spied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were done again by book-keeping, each time."""
    calls: list[int] = []
    real = ghost.clipped_sums

    def spy(model: nn.Module, loss: Any, chunk: Chunk, clip: Clip) -> dict[str, Tensor]:
        calls.append(len(chunk.inputs))
        return real(model, loss, chunk, clip)

    monkeypatch.setattr(ghost, "clipped_sums", spy)
    return calls


def proportional(output: Tensor, target: Tensor) -> Tensor:
    return (output * (1 + target).unsqueeze(1)).sum()
