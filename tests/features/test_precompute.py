"""Features computed once: every row by itself, whatever stands beside it."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from discreet import InputError, UnsupportedModel
from discreet.features import FRONT_ENDS, precompute
from discreet.features.precompute import rows_together

SHAPE = (1, 12, 12)
SMALL = {
    "scattering": {"angles": 2, "groups": 3},
    "hog": {"bins": 4},
    "random_convolutions": {"filters": 4, "groups": 2},
    "vgg16": {"width": 4},
    "alexnet": {"width": 4},
}
SHAPES = {"vgg16": (3, 32, 32), "alexnet": (3, 12, 12)}


def rows(count: int, seed: int = 0, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_a_rows_features_are_its_own_bit_for_bit(name: str) -> None:
    """Alone, in another order, beside other rows, and beside rows that are not finite."""
    shape = SHAPES.get(name, SHAPE)
    front_end, inputs = FRONT_ENDS[name](shape, **SMALL.get(name, {})), rows(11, shape=shape)
    features = precompute(front_end, inputs, at_once=4)
    assert features.shape[0] == 11
    for i in range(11):
        assert torch.equal(precompute(front_end, inputs[i : i + 1], at_once=4)[0], features[i])
    assert torch.equal(precompute(front_end, inputs.flip(0), at_once=4).flip(0), features)
    others = torch.cat([inputs[:5], rows(9, seed=1, shape=shape)])
    others[6] = torch.nan
    assert torch.equal(precompute(front_end, others, at_once=4)[:5], features[:5])


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_rows_of_features_have_one_size_and_are_those_of_the_front_end(name: str) -> None:
    shape = SHAPES.get(name, SHAPE)
    front_end, inputs = FRONT_ENDS[name](shape, **SMALL.get(name, {})), rows(5, shape=shape)
    features = precompute(front_end, inputs)
    torch.testing.assert_close(features.norm(dim=1), torch.full((5,), 10.0))
    torch.testing.assert_close(features, front_end(inputs))


class Bytes(nn.Module):
    """Takes images for bytes if any number of all of them is above 1, as scripts do that are given either."""

    def forward(self, x: Tensor) -> Tensor:
        return x / 255.0 if x.max() > 1 else x * 1.0


@pytest.mark.parametrize("kind", [torch.float32, torch.uint8, torch.int64])
def test_a_row_of_large_numbers_changes_no_other(kind: torch.dtype) -> None:
    """One bright image made the features of 31 dark ones 255 times smaller."""
    with pytest.raises(UnsupportedModel, match="influence each other"):
        precompute(Bytes(), torch.ones(32, 4).to(kind))


class Counted(nn.Module):
    """The rows themselves; keeps the sizes of the batches it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return 2 * x


def test_all_blocks_have_one_size() -> None:
    front_end = Counted()
    features = precompute(front_end, rows(10), at_once=4)
    assert torch.equal(features, 2 * rows(10))
    assert front_end.sizes[-3:] == [4, 4, 4]


class OtherRounding(nn.Module):
    """Rounds otherwise for rows that stand further back, as fast kernels do."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        place = torch.arange(len(x)).view(-1, 1, 1, 1)
        return x * (1 + self.size * place)


def test_a_front_end_that_rounds_otherwise_gets_one_row_at_a_time() -> None:
    front_end = OtherRounding(2.0**-22)
    assert rows_together(front_end, rows(1), 4) == 1
    assert torch.equal(precompute(front_end, rows(6), at_once=4), rows(6))


class Centred(nn.Module):
    """Subtracts the mean of the batch."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.nanmean(0)


class Running(nn.Module):
    """Sums of the rows so far."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.nan_to_num(x).cumsum(0)


class Poisoned(nn.Module):
    """Rows are apart, but for one that is not finite."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0 * x.sum()


@pytest.mark.parametrize("kind", [Centred, Running, Poisoned, lambda: nn.BatchNorm2d(1, affine=False)])
def test_rows_that_influence_each_other_are_refused(kind: type[nn.Module]) -> None:
    front_end = kind()
    if isinstance(front_end, nn.BatchNorm2d):  # with stored statistics it is a fixed map, without it mixes
        precompute(front_end, rows(3))
        front_end = nn.BatchNorm2d(1, affine=False, track_running_stats=False)
    with pytest.raises(UnsupportedModel, match="influence each other"):
        precompute(front_end, rows(3))


def test_the_front_end_is_left_as_it_was() -> None:
    front_end = nn.Sequential(nn.Flatten(), nn.Dropout(0.5))
    assert torch.equal(precompute(front_end, rows(3)), rows(3).flatten(1))
    assert front_end.training


def test_what_would_be_trained_is_refused() -> None:
    front_end = nn.Sequential(nn.Flatten(), nn.Linear(144, 3))
    with pytest.raises(InputError, match=r"1\.weight.*requires_grad_"):
        precompute(front_end, rows(3))
    assert precompute(front_end.requires_grad_(False), rows(3)).shape == (3, 3)


def test_other_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="at least one row"):
        precompute(nn.Identity(), rows(3)[:0])
    with pytest.raises(InputError, match="one row for each"):
        precompute(nn.Flatten(0), rows(3))
    with pytest.raises(InputError, match="at_once"):
        precompute(nn.Identity(), rows(3), at_once=0)


@pytest.mark.parametrize(
    ("name", "shape", "options", "words"),
    [
        ("scattering", (28, 28), {}, "channels, height, width"),
        ("scattering", (1, 28, 28), {"groups": 7}, "81 channels.*7 groups"),
        ("hog", (784,), {}, "channels, height, width"),
        ("random_convolutions", (1, 28, 28), {"groups": 3}, "128 channels.*3 groups"),
        ("vgg16", (3, 31, 32), {}, "at least 32 pixels a side"),
        ("alexnet", (1, 28, 28), {}, r"images \(3, height, width\)"),
    ],
)
def test_bad_front_ends_are_refused(name: str, shape: tuple[int, ...], options: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        FRONT_ENDS[name](shape, **options)


def test_whole_numbers_are_rows_too() -> None:
    table = torch.eye(4)
    embedding = nn.Embedding.from_pretrained(table)
    tokens = torch.tensor([[0, 1], [3, 2], [1, 1]])
    assert torch.equal(precompute(embedding, tokens), table[tokens])
    assert list(itertools.chain(*precompute(embedding, tokens).argmax(2).tolist())) == [0, 1, 3, 2, 1, 1]
