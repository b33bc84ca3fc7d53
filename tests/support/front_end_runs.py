"""Trainings whose model begins with layers that are computed once, and the features of their rows."""

from __future__ import annotations

from pathlib import Path

import torch
from problems import tiny_training
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from discreet.training import Training

ROWS = 22


def rows(count: int = ROWS) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(1)), torch.arange(count) % 3


def linear(width: int) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        return nn.Linear(width, 3)


def made(folder: Path, model: nn.Module, data: object = None, engine: str = "bookkeeping") -> Training:
    return tiny_training(folder, model=model, data=rows() if data is None else data, engine=engine)


def features(training: Training) -> Tensor:
    """What steps are given."""
    assert isinstance(training.data.dataset, TensorDataset)
    return training.data.dataset.tensors[0]
