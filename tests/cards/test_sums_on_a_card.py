"""Sums of chunks that are added up on a card have the bits of sums that are added up on the processor."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Clip
from discreet.distributed.ranks import Ranks
from discreet.distributed.whole_sums import FineGrid, WholeSums

CLIP = Clip(1.0, 2.0**-30)
SHAPES = {"a": (7, 5), "b": (), "c": (3,)}


def chunks(dtype: torch.dtype, device: str) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(2)
    drawn = [{name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()} for _ in range(3)]
    return [{name: part.to(device, dtype) for name, part in chunk.items()} for chunk in drawn]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 3])
def test_sums(card: str, count: int, dtype: torch.dtype) -> None:
    found = []
    for device in ("cpu", card):
        parameters = {name: nn.Parameter(torch.zeros(shape, device=device)) for name, shape in SHAPES.items()}
        accumulator = Accumulator(parameters)
        for chunk in chunks(dtype, device)[:count]:
            accumulator.add(chunk)
        found.append(accumulator.total(ENGINES["bookkeeping"], CLIP, 4).tensors)
    for name in SHAPES:
        np.testing.assert_array_equal(found[1][name], found[0][name], strict=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_sums(card: str, dtype: torch.dtype) -> None:
    engine, found, unusable = ENGINES["bookkeeping"], [], []
    for device in ("cpu", card):
        sums = WholeSums(FineGrid.of(SHAPES, engine, CLIP, 4, 3), Ranks())
        for number, chunk in enumerate(chunks(dtype, device)):
            if number == 2:
                chunk["a"][0, 0], chunk["c"][1] = torch.nan, torch.inf
            sums.add(chunk)
        unusable.append(sums.unusable)
        found.append(sums.total(engine, CLIP, 4).tensors)
    assert unusable == [2, 2]
    for name, values in found[0].items():
        np.testing.assert_array_equal(found[1][name], values, strict=True)
