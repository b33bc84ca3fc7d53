"""What a step holds: no more for more chunks, and in proportion to the rows of a chunk."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from discreet.clipping import ENGINES, Accumulator, Chunk, Clip, private_parameters

CLIP = Clip(0.5, 2.0**-30)


class Held(TorchDispatchMode):
    """The most bytes of tensors that lived at a time, of those that were made inside."""

    def __init__(self) -> None:
        super().__init__()
        self._live: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        for part in tree_leaves(found):
            if isinstance(part, Tensor):
                storage = part.untyped_storage()
                if storage._cdata not in self._live:
                    self._live[storage._cdata] = storage.nbytes()
                    weakref.finalize(storage, self._live.pop, storage._cdata, None)
        self.most = max(self.most, sum(self._live.values()))
        return found


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def most(rows: int, chunks: int = 1, keep: list[Any] | None = None) -> int:
    """The most bytes that the clipped sum of a batch takes, in chunks of `rows`; `keep` holds on to all sums."""
    net = model()
    inputs, targets = torch.randn(rows, 1, 12, 12), torch.arange(rows) % 10
    accumulator, engine = Accumulator(private_parameters(net)), ENGINES["bookkeeping"]
    with Held() as held:
        for _ in range(chunks):
            sums = engine.clipped_sum(net, nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)
            accumulator.add(sums)
            if keep is not None:
                keep.append(sums)
    return held.most


def test_more_chunks_take_no_more_memory() -> None:
    few = most(8, chunks=3)  # from the third on the sum of those before is there, in double precision
    assert most(8, chunks=12) <= 1.02 * few
    assert most(8, chunks=12, keep=[]) > 1.5 * few  # it would be seen


def test_memory_grows_with_the_rows_of_a_chunk_and_no_faster() -> None:
    sizes = [most(rows) for rows in (16, 32, 64, 128, 256)]
    for one, two in itertools.pairwise(sizes):
        assert 1.2 * one < two < 2.05 * one
