"""Clipped sums on a card are those of the processor, up to rounding, and within the error that an engine declares."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from half_rules import SIZES, check_half_rule
from sharded_models import OfQueries, gpt, seeded
from sharded_runs import texts
from shared_runs import deep
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip

NORM = 0.3


def pictures() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(20, 3, 16, 16, generator=generator), torch.arange(20) % 3


def blobs() -> tuple[Tensor, Tensor]:
    return torch.randn(20, 4, generator=torch.Generator().manual_seed(6)), torch.arange(20) % 3


def convolutional() -> nn.Module:
    parts = nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 6, 3, stride=2), nn.Flatten()
    return nn.Sequential(*parts, nn.Linear(216, 3))


class Recurrent(nn.Module):
    """An LSTM over words, of which the last output is classified."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(30, 8), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, words: Tensor) -> Tensor:
        head: Tensor = self.head(self.lstm(self.embed(words))[0][:, -1])
        return head


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "two layers": (deep, blobs),
    "convolutions": (lambda: seeded(convolutional), pictures),
    "transformer": (gpt, texts),
    "learned queries": (lambda: seeded(OfQueries), texts),
    "LSTM": (lambda: seeded(Recurrent), texts),
}

CASES = [
    (model, engine)
    for model in MODELS
    for engine in ENGINES
    if (model, engine) != ("LSTM", "vmap")  # torch.func cannot map cuDNN's LSTM
]


def sums(engine: str, name: str, device: str, dtype: torch.dtype, rows: slice = slice(None)) -> Tensor:
    """The clipped sum of the rows, as one vector in double precision."""
    model, data = MODELS[name]
    inputs, targets = (part[rows].to(device) for part in data())
    inputs = inputs.to(dtype) if inputs.is_floating_point() else inputs
    found = ENGINES[engine].clipped_sum(
        model().to(device, dtype), nn.CrossEntropyLoss(), Chunk(inputs, targets), Clip(NORM, 2.0**-30)
    )
    return torch.cat([found[key].double().cpu().reshape(-1) for key in sorted(found)])


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_sums_are_those_of_the_processor(card: str, name: str, engine: str) -> None:
    """In double precision the two differ by rounding alone, so what is left shows a mistake and not TF32."""
    here, there = sums(engine, name, "cpu", torch.float64), sums(engine, name, card, torch.float64)
    assert (there - here).norm() <= 1e-9 + 2.0**-29 * len(here) ** 0.5 * (engine == "exact")


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_no_row_is_longer_than_the_clip_norm(card: str, name: str, engine: str) -> None:
    """In single precision, by more than the engine declares. Convolutions of the model itself may use TF32."""
    declared = ENGINES[engine].error or 0.0
    for row in range(4):
        assert sums(engine, name, card, torch.float32, slice(row, row + 1)).norm() <= NORM * (1 + declared + 1e-12)


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_a_chunk_is_the_sum_of_its_rows(card: str, name: str, engine: str) -> None:
    """In single precision, within what the engine declares: the error for each row in both sums."""
    rows = len(MODELS[name][1]()[0])
    alone = [sums(engine, name, card, torch.float32, slice(row, row + 1)) for row in range(rows)]
    apart = (sums(engine, name, card, torch.float32) - torch.stack(alone).sum(0)).norm()
    assert apart <= 2 * (ENGINES[engine].error or 1e-6) * NORM * rows


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("way", SIZES)
def test_half_precision_is_added_up_in_single_precision(card: str, way: str, kind: torch.dtype) -> None:
    check_half_rule(way, card, kind)
