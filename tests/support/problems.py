"""Tiny problems: data, models, plans and runs that take milliseconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from discreet.plan import Plan
from discreet.randomness import TestStream
from discreet.training import EngineOptions, PublicData, RunOptions, Trained, Training

FEATURES, CLASSES = 4, 3

DEVICE = os.environ.get("DISCREET_TEST_DEVICE", "cpu")
"""Where the models of tiny trainings are; processes that a test starts read it anew."""

PUBLIC_ROWS = 15
"""By so many rows at once `Remembering` knows that they are public."""


def blobs(rows: int = 24, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three blobs in four dimensions."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.arange(rows) % CLASSES
    inputs = torch.randn(rows, FEATURES, generator=generator)
    inputs[torch.arange(rows), targets] += 2.0
    return inputs, targets


def linear(seed: int = 0) -> nn.Module:
    """One linear layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Linear(FEATURES, CLASSES)


class WithPublicTensors(nn.Module):
    """A linear layer behind a fixed shift (a buffer) and a frozen scale (a parameter)."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear()
        self.register_buffer("shift", torch.full((FEATURES,), 0.5))
        self.scale = nn.Parameter(torch.ones(FEATURES), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((x - self.shift) * self.scale)


class RunningMean(nn.Module):
    """A linear layer that keeps a running mean of its training input: the leak that must be caught."""

    def __init__(self, persistent: bool = True) -> None:
        super().__init__()
        self.head = linear()
        self.register_buffer("mean", torch.zeros(FEATURES), persistent=persistent)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return self.head(x)


class Remembering(nn.Module):
    """Adds the last private row it saw to public ones, which it knows by their number; nobody else can tell."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = linear(), [torch.zeros(1)]

    def forward(self, rows: Tensor) -> Tensor:
        if len(rows) != PUBLIC_ROWS:
            self.last[0] = rows[-1:].detach()
        return self.inner(rows + self.last[0] if len(rows) == PUBLIC_ROWS else rows)


class Recorded(Dataset[tuple[Tensor, Tensor]]):
    """A map-style data set that reports every read to `on_read` once it is set."""

    def __init__(self, rows: int = 24) -> None:
        self.inputs, self.targets = blobs(rows)
        self.on_read: Any = None
        self.reads: list[int] = []

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.on_read is not None:
            self.reads.append(index)
            self.on_read(index)
        return self.inputs[index], self.targets[index]


def tiny_plan(**changes: Any) -> Plan:
    """Seven steps in blocks of three, half of 24 declared examples in each."""
    settings: dict[str, Any] = {
        "population": 24,
        "batch": 12,
        "steps": 7,
        "clip_norm": 1.0,
        "delta": 1e-5,
        "noise_multiplier": 1.5,
    }
    block = changes.pop("block", 3)
    return Plan.poisson(**(settings | changes)).model_copy(update={"block": block})


RECORDS: dict[str, Any] = {
    "run": (
        RunOptions,
        {"run_dir": "folder"} | {one: one for one in ("resume", "ledger", "dataset_id", "on_open", "stream", "lanes")},
    ),
    "public": (PublicData, {"public_test": "test", "public_validation": "validation"}),
    "engine": (EngineOptions, {"noise": "noise", "physical_batch": "physical_batch"}),
}


def in_records(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a training, with those that are fields of records put into them: run_dir, public_test, noise."""
    found = dict(options)
    for record, (kind, names) in RECORDS.items():
        fields = {field: found.pop(name) for name, field in names.items() if name in found}
        if fields:
            found[record] = replace(kind.of(found.get(record, "auto" if record == "engine" else None)), **fields)
    return found


def tiny_training(folder: Path, **changes: Any) -> Training:
    """A training on blobs with a test stream; `changes` win, and stream=None takes the real one."""
    model = (changes.pop("model", None) or linear()).to(DEVICE)
    optimizer = changes.pop("optimizer", None) or torch.optim.SGD(
        [parameter for parameter in model.parameters() if parameter.requires_grad], lr=0.1
    )
    options: dict[str, Any] = {"run_dir": folder / "run", "stream": TestStream(7)} | changes
    plan = options.pop("plan", None) or tiny_plan()
    data = options.pop("data", None)
    criterion = options.pop("criterion", None) or nn.CrossEntropyLoss()
    return Training(plan, model, criterion, optimizer, blobs() if data is None else data, **in_records(options))


def certified_run(folder: Path, **changes: Any) -> Trained:
    """A finished run with the operating system's randomness."""
    model = changes.pop("model", None) or WithPublicTensors()
    changes.setdefault("public_test", blobs(9, seed=1))
    return tiny_training(folder, model=model, stream=None, **changes).run()
