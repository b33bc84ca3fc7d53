"""Rows made for two passes that differ: gradients that cancel in one and not in the other, random numbers that depend
on what rows hold, and numbers that are overwritten in between."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from adversarial_rows import ROWS, Batch, proportional, share_moved, squared
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, private_parameters
from discreet.clipping.engines.norms import example_squares
from discreet.clipping.factor import decide
from discreet.clipping.losses import each_loss


class Attended(nn.Module):
    """Attention whose rows are normalised, so that huge ones pass."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.norm, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.mix(x, x, x)[0]).mean(1))


class Gated(nn.Module):
    """One number times three others, which may cancel; a second layer makes what is left long again."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(4, 1), nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x[:, :4])
        return self.outer(h * x[:, 4:5] + h * x[:, 5:6] + h * x[:, 6:7])


def made(build: Callable[[], nn.Module], loss: Any, shape: tuple[int, ...], seeds: tuple[int, int]) -> Batch:
    """Ordinary rows for a model; then torch's generator goes on from there."""
    torch.manual_seed(seeds[0])
    model = build()
    torch.manual_seed(seeds[1])
    return Batch(model, loss, torch.rand(ROWS, *shape), torch.rand(ROWS) + 0.1, (1,) * ROWS)


def huge_positions() -> Batch:
    batch = made(Attended, squared, (3, 4), (1, 9))
    torch.manual_seed(9)
    torch.rand(ROWS, 3, 4)
    batch.inputs[-1] = 1e4 * torch.randn(1, 4).expand(3, 4)
    return batch


def huge_and_constant() -> Batch:
    batch = made(lambda: nn.Sequential(nn.LayerNorm(12), nn.Linear(12, 3)), squared, (12,), (1, 2))
    batch.inputs[-1] = 1e7
    return batch


def cancelling_gates() -> Batch:
    batch = made(Gated, proportional, (7,), (0, 2))
    a, b = torch.tensor([0.7, 0.3]) * 1e9
    batch.inputs[-1, 4:] = torch.stack([a, -(-(a + b) + a), -(a + b)])
    return batch


MADE = [huge_positions, huge_and_constant, cancelling_gates]


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("batch", MADE)
def test_what_cancels_in_one_pass_does_not_come_back_in_another(batch: Callable[[], Batch], engine: str) -> None:
    with torch.random.fork_rng(devices=[]):
        assert share_moved(replace(ENGINES[engine], float_bits=16), batch(), 1.0) <= 1


def by_a_weighted_loss(model: nn.Module, criterion: Any, chunk: Chunk, clip: Clip) -> dict[str, Tensor]:
    """The sum in exact arithmetic, as the gradient of the weighted loss: nothing measures what is added up."""
    parameters = private_parameters(model)
    squares = example_squares(model, criterion, chunk, clip)
    weights = decide(clip, squares, {name: part.numel() for name, part in parameters.items()}).weights
    losses = each_loss(criterion, model(chunk.inputs), chunk.targets)
    total = (next(iter(weights.values())).to(losses) * losses).sum()
    return dict(zip(parameters, torch.autograd.grad(total, list(parameters.values())), strict=True))


class Slopes(nn.Module):
    """Two random slopes, each drawn for what is negative only."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.head = nn.RReLU(), nn.RReLU(), nn.Linear(2, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([self.one(x[:, :1]), self.other(x[:, 1:])], 1))


def slopes_of(engine: str) -> dict[str, Tensor]:
    """The sum over rows of which one is not finite. In place of it the first one would draw as many slopes, but others:
    then all other rows have other slopes, too."""
    inputs, targets = torch.full((64, 2), -50.0), torch.ones(64, 1)
    inputs[0], inputs[1] = torch.tensor([-1.0, 1e-9]), torch.tensor([1e-9, -1.0])
    targets[1] = math.inf
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return ENGINES[engine].clipped_sum(
            Slopes(), lambda x, y: (x * y).sum(), Chunk(inputs, targets), Clip(100.0, 2.0**-30)
        )


def test_a_row_that_is_not_finite_leaves_the_random_slopes_of_others_alone() -> None:
    ghost, wanted = slopes_of("ghost"), slopes_of("bookkeeping")
    assert torch.equal(ghost["head.weight"], wanted["head.weight"])


def test_a_planted_copy_in_place_of_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def filled(model: nn.Module, loss: Any, chunk: Chunk, *others: Any) -> dict[str, Tensor]:
        if len(others) > 1:  # the second pass
            chunk = Chunk(*(torch.cat([part[:1], part[:1], part[2:]]) for part in (chunk.inputs, chunk.targets)))
        return example_squares(model, loss, chunk, *others)

    monkeypatch.setattr("discreet.clipping.engines.ghost.example_squares", filled)
    test_a_row_that_is_not_finite_leaves_the_random_slopes_of_others_alone()  # what was measured differs
    monkeypatch.setattr("discreet.clipping.engines.ghost._allowed", lambda used, measured: True)
    with pytest.raises(AssertionError):
        test_a_row_that_is_not_finite_leaves_the_random_slopes_of_others_alone()


class Hidden(nn.Module):
    """Writes to what a norm was given, past the count of versions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.0
        h = self.norm(x)
        x.data.clamp_(-5, 5)
        return self.head(h + x.detach())


def written_past_the_count() -> Batch:
    batch = made(Hidden, squared, (8,), (0, 0))
    batch.inputs[-1] = 5000 + torch.randn(8)
    return batch


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_what_is_written_past_the_count_of_versions_is_clipped_all_the_same(engine: str) -> None:
    """The gradient is a wrong one then, but its sum is of the same numbers as its norm."""
    with torch.random.fork_rng(devices=[]):
        assert share_moved(replace(ENGINES[engine], float_bits=16), written_past_the_count(), 1.0) <= 1


@pytest.mark.parametrize("batch", [*MADE, written_past_the_count])
def test_a_planted_pass_over_a_weighted_loss_is_found(batch: Callable[[], Batch]) -> None:
    planted = replace(ENGINES["ghost"], clipped_sum=by_a_weighted_loss, float_bits=16)
    with torch.random.fork_rng(devices=[]), pytest.raises(AssertionError):
        assert share_moved(planted, batch(), 1.0) <= 1
