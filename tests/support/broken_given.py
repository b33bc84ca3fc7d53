"""Broken builds that a user makes: data pipelines whose rows depend on each other, public rows that are private."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from broken_builds import broken, patched
from torch import Tensor
from torch.utils.data import Dataset

from discreet.audit.builds.made_up import MadeUp
from discreet.training import PublicBatches, PublicData
from discreet.training.batch import Batch
from discreet.training.public.extra_rows import PublicGradient, PublicSource

Rows = tuple[Tensor, Tensor]


def pipeline(change: Callable[[Tensor, Tensor], Rows]) -> Callable[[MadeUp], object]:
    """A user's own code, which makes rows of raw rows."""
    return lambda rows: change(rows.inputs, rows.targets)


def _standardised(x: Tensor, y: Tensor) -> Rows:
    return (x - x.mean(0)) / (x.std(0, correction=0) + 1e-3), y


@broken(
    "rows are standardised by the mean and spread of all of them",
    "replay/",
    families=("numbers", "images"),
    pipeline=pipeline(_standardised),
)
def standardised_together() -> Any:
    return nullcontext()


def _oversampled(x: Tensor, y: Tensor) -> Rows:
    return torch.cat([x, x[-4:]]), torch.cat([y, y[-4:]])


@broken("rows of a rare class are in the data twice", "replay/", pipeline=pipeline(_oversampled))
def oversampled() -> Any:
    return nullcontext()


class _MixedUp(Dataset[Any]):
    """Each row with a share of another one (mixup)."""

    def __init__(self, rows: Rows) -> None:
        self.x, self.y = rows

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Any:
        return 0.7 * self.x[index] + 0.3 * self.x[(index + 1) % len(self.y)], self.y[index]


@broken(
    "mixup: each row has a share of the next one",
    "replay/",
    families=("numbers", "images"),
    pipeline=lambda rows: _MixedUp((rows.inputs, rows.targets)),
)
def mixed_up() -> Any:
    return nullcontext()


def _ranked(x: Tensor, y: Tensor) -> Rows:
    return x.argsort(0).argsort(0).to(x.dtype) / len(x), y


@broken(
    "numbers are replaced by their ranks among all rows",
    "replay/",
    families=("numbers", "images"),
    pipeline=pipeline(_ranked),
)
def ranked() -> Any:
    return nullcontext()


def _frequent(x: Tensor, y: Tensor) -> Rows:
    seen = torch.bincount(x.flatten(), minlength=64)
    order = seen.argsort(descending=True, stable=True).argsort(stable=True)
    return order[x].clamp(max=int(x.max())), y


@broken(
    "tokens are numbered by how often they occur in the data",
    "replay/",
    families=("texts", "language"),
    pipeline=pipeline(_frequent),
)
def vocabulary_of_the_data() -> Any:
    return nullcontext()


BESIDE = PublicData(beside=PublicBatches(torch.randn(6, 64), torch.randint(10, (6,)), weight=0.3))


@broken(
    "public rows: their place is taken by the private ones of the batch",
    "replay/",
    families=("numbers",),
    public=BESIDE,
)
def private_rows_beside() -> Any:
    real_add, real_at, chunks = Batch._add, PublicSource.at, []

    def add(self: Any, criterion: Any, chunk: Any) -> None:
        chunks.append(chunk)
        real_add(self, criterion, chunk)

    def at(self: Any, position: int) -> PublicGradient:
        if not chunks:
            return real_at(self, position)
        inputs, targets = chunks[-1]
        chunks.clear()
        model = self.copy.follow()
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        names = [name for name, one in model.named_parameters() if one.requires_grad]
        found = torch.autograd.grad(loss, [model.get_parameter(name) for name in names])
        return PublicGradient(self.batches.weight, dict(zip(names, found, strict=True)))

    return patched((Batch, "_add", add), (PublicSource, "at", at))


@broken(
    "public rows: the noisy part is not weighted down, and the divisor is",
    "noise/scale",
    families=("numbers",),
    public=BESIDE,
)
def public_rows_in_place_of_noise() -> Any:
    def joined(self: PublicGradient, name: str, private: Tensor) -> Tensor:
        return 0.5 * private + self.weight * self.tensors[name]

    return patched((PublicGradient, "joined", joined))
