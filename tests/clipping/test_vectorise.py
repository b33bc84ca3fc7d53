"""Models that draw numbers into memory of their own run under vmap, with numbers of its own for each example."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.core.errors import UnsupportedModel

CLIP = Clip(1e6, 2.0**-30)


class Branch(nn.Module):
    """A scale that the module holds itself, and a branch that is dropped for half of the examples, as torchvision does
    it in ConvNeXt and Swin."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.empty([len(x), 1], dtype=x.dtype, device=x.device)
        kept.bernoulli_(0.5)
        counted = torch.empty(1, dtype=torch.int64).fill_(2)
        return x + self.scale * x * kept * counted


def _weighted(output: Tensor, target: Tensor) -> Tensor:
    return output.sum(1) * target


class OfZeros(Branch):
    """The same, drawn into zeros and compared with ones and a full tensor."""

    def forward(self, x: Tensor) -> Tensor:
        drawn = torch.zeros(len(x), 1).float().uniform_(0, 1) < torch.full((len(x), 1), 0.0).uniform_(0, 1)
        return x + self.scale * x * drawn * torch.ones(len(x), 1).bernoulli_(1.0) * torch.full((1,), 2.0)


@pytest.mark.parametrize("kind", [Branch, OfZeros])
def test_each_example_drops_its_branch_by_itself(kind: type[Branch]) -> None:
    """Row i adds 2 x 2^i or nothing to each entry, so the sum tells who was dropped. That all of twelve rows are
    dropped or none has probability 2^-11, and the seed is fixed."""
    torch.manual_seed(0)
    model, inputs, targets = kind(), torch.ones(12, 4), 2.0 ** torch.arange(12)
    found = ENGINES["vmap"].clipped_sum(model, _weighted, Chunk(inputs, targets), CLIP)["scale"]
    assert torch.all(found == found[0])
    assert found[0] % 2 == 0
    assert 0 < found[0] < 2 * (2**12 - 1)
    again = ENGINES["vmap"].clipped_sum(model, _weighted, Chunk(inputs, targets), CLIP)["scale"]
    assert again[0] != found[0]


class Known(nn.Module):
    """Python reads a number from memory that the module asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale * float(torch.empty(1).fill_(2.0))


def test_memory_without_random_numbers_can_be_read() -> None:
    found = ENGINES["vmap"].clipped_sum(Known(), _weighted, Chunk(torch.ones(3, 4), torch.ones(3)), CLIP)
    torch.testing.assert_close(found["scale"], torch.full((4,), 6.0), check_dtype=False)


class PartlyWritten(Branch):
    """Half of the memory is never written to."""

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.empty([len(x), 4])
        kept[:, :2].bernoulli_(1.0)
        return x * self.scale * kept


def test_memory_that_nobody_wrote_to_is_zero() -> None:
    [torch.full((3, 1, 4), 7.0) for _ in range(1000)]  # which memory of the next tensors still holds
    found = ENGINES["vmap"].clipped_sum(PartlyWritten(), _weighted, Chunk(torch.ones(3, 4), torch.ones(3)), CLIP)
    torch.testing.assert_close(found["scale"], torch.tensor([3.0, 3.0, 0.0, 0.0]), check_dtype=False)


class WritesToItsInput(Branch):
    """What it is given is twice as large once it has begun."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mul_(2))


def test_what_a_first_attempt_wrote_to_is_not_taken_again() -> None:
    with pytest.raises(UnsupportedModel, match="inplace randomness"):
        ENGINES["vmap"].clipped_sum(WritesToItsInput(), _weighted, Chunk(torch.ones(3, 4), torch.ones(3)), CLIP)
