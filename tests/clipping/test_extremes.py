"""Rows of extreme sizes, whose squares, products or weighted parts are outside the range of single precision.

The promise is that of `test_adversaries`: such a row moves the sum by no more than the sensitivity. Each attack here
is shown to succeed where its remedy is taken out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from adversarial_rows import CHECKED, LOSSES, ROWS, Batch, Target, proportional, share_moved, squared
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet.clipping import Chunk, Clip
from discreet.clipping.rules import Vectorised, base, embedding, numbers
from discreet.clipping.rules.products import gram, outer


class InPlace(nn.Module):
    """Has no rule, and overwrites what it is given, behind the back of torch: otherwise it would be refused."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 4) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        x.data.mul_(3.0)
        return nn.functional.linear(x, self.weight)


class Copied(nn.Module):
    """Gives a module a copy of its input."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        outcome: Tensor = self.inner(x + 0.0)
        return outcome


class Gated(nn.Module):
    """A linear layer, times the last of its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        outcome: Tensor = self.inner(x[..., :4]) * x[..., 4:5]
        return outcome


class Embedded(nn.Module):
    """Tokens in equal numbers, times what is given."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        tokens = torch.arange(x.shape[1]).remainder(3).expand(len(x), -1)
        outcome: Tensor = self.embed(tokens) * x
        return outcome


class Paired(nn.Module):
    """Both inputs of a bilinear layer the same."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Bilinear(4, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        outcome: Tensor = self.inner(x, x)
        return outcome


class Recurrent(nn.Module):
    """Without a bound on its states."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.RNN(4, 3, nonlinearity="relu", batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        outcome: Tensor = self.inner(x)[0]
        return outcome


def last_row(
    target: Target, row: float, label: float, loss: Callable[[Tensor, Tensor], Tensor] = proportional
) -> Batch:
    """Ordinary rows of a model, and one of `row` everywhere."""
    model, inputs, targets = target.make()
    inputs[-1], targets[-1] = row, label
    return Batch(model, loss, inputs, targets, (1,) * ROWS)


GRAMS = {
    "linear": Target(lambda: nn.Linear(96, 96, bias=False), (8, 96)),
    "convolution": Target(lambda: nn.Conv1d(96, 96, 3, bias=False), (96, 6)),
}


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", GRAMS)
def test_gram_matrices_below_the_range_of_their_type(name: str, engine: str) -> None:
    for row, label in ((2.6e-23, 7e17), (7e17, 2.6e-23)):
        assert share_moved(CHECKED[engine], last_row(GRAMS[name], row, label), 1e-3) <= 1


def nothing_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gram, "_lost", lambda own, *_: torch.zeros_like(own, dtype=torch.float64))


def in_place() -> Batch:
    return last_row(Target(lambda: Copied(InPlace()), (4,)), 5.0, 7.0)


def test_a_module_that_overwrites_its_input_is_run_again_on_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BUDGET", 1)
    assert share_moved(CHECKED["bookkeeping"], in_place(), 0.1) <= 1


def not_copied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(base, "BUDGET", 1)

    def sliced(self: Vectorised, i: int, j: int) -> tuple[dict[int, Tensor], ...]:
        return tuple({key: value[i:j] for key, value in held.items()} for held in (self._given, self._outputs))

    patch.setattr(Vectorised, "_copied", sliced)


def zero_head(inputs: int, outputs: int) -> nn.Module:
    head = nn.Linear(inputs, outputs, bias=False)
    nn.init.zeros_(head.weight)
    return head


def huge_input() -> Batch:
    return last_row(Target(lambda: zero_head(1024, 4), (1024,)), 3.3e38, -2e-6, squared)


@pytest.mark.parametrize("engine", CHECKED)
def test_weighted_slopes_below_the_range_times_a_huge_input(engine: str) -> None:
    assert share_moved(CHECKED[engine], huge_input(), 1e-3) <= 1


def no_largest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(numbers, "LARGEST", 1e100)


def gated(slope: float) -> Batch:
    """The slope of the loss is so small that a weight leaves it few digits; then comes a factor of 1e38."""
    batch = last_row(Target(Gated, (5,)), 0.0, slope)
    batch.inputs[-1, 4], batch.inputs[-1, 0] = 1e38, 9e11 / (slope * 1e38)
    return batch


@pytest.mark.parametrize("engine", CHECKED)
def test_weighted_losses_below_the_range_before_a_huge_factor(engine: str) -> None:
    for slope in (6.4e-34, 7.5e-34):
        assert share_moved(CHECKED[engine], gated(slope), 1.0) <= 1


def opposite_tokens() -> Batch:
    """The gradients of a unit's rows are opposite, and so long that beside them little is left in double precision."""
    batch = last_row(MODELS["embedding"], 0.7, 5e12, squared)
    batch.inputs[-2:], batch.targets[-2] = batch.inputs[:1], -5e12
    return Batch(batch.model, squared, batch.inputs, batch.targets, (1, 1, 1, 2))


@pytest.mark.parametrize("engine", CHECKED)
def test_tokens_whose_gradients_cancel(engine: str) -> None:
    assert share_moved(CHECKED[engine], opposite_tokens(), 1e-3) <= 1


def no_rounding_of_tokens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(embedding, "with_rounding", lambda squares, *_: squares)


@pytest.mark.parametrize(
    ("plant", "engine", "batch", "norm"),
    [
        (no_rounding_of_tokens, "bookkeeping", opposite_tokens, 1e-3),
        (nothing_lost, "bookkeeping", lambda: last_row(GRAMS["linear"], 2.6e-23, 7e17), 1e-3),
        (nothing_lost, "ghost", lambda: last_row(GRAMS["convolution"], 2.6e-23, 7e17), 1e-3),
        (not_copied, "bookkeeping", in_place, 0.1),
        (no_largest, "bookkeeping", huge_input, 1e-3),
    ],
)
def test_without_its_remedy_each_attack_succeeds(
    plant: Callable[[pytest.MonkeyPatch], None],
    engine: str,
    batch: Callable[[], Batch],
    norm: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch)
    assert share_moved(CHECKED[engine], batch(), norm) > 1.001


def ellipsoid_sum(engine: str, rows: slice) -> dict[str, Tensor]:
    """The sum in scales of one, of ordinary rows and a last one whose gradient has an infinite number."""
    batch = last_row(Target(lambda: nn.Sequential(nn.Linear(12, 6), nn.Linear(6, 3)), (12,)), 30.0, -3e38)
    scales = {name: torch.ones_like(part, dtype=torch.float64) for name, part in batch.model.named_parameters()}
    clip = Clip(1.0, 2.0**-40, scales=scales)
    return CHECKED[engine].clipped_sum(
        batch.model, batch.criterion, Chunk(batch.inputs[rows], batch.targets[rows]), clip
    )


@pytest.mark.parametrize("engine", CHECKED)
def test_rows_that_overflow_contribute_nothing_to_a_sum_in_scales(engine: str) -> None:
    whole, rest = ellipsoid_sum(engine, slice(None)), ellipsoid_sum(engine, slice(ROWS - 1))
    for name in whole:
        torch.testing.assert_close(whole[name].double(), rest[name].double(), rtol=1e-5, atol=1e-6)


def test_without_its_remedy_a_sum_in_scales_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    def unlimited(a: Tensor, g: Tensor, scale: Tensor) -> Tensor:
        return ((g.double().square() @ scale.square().reciprocal()) * a.double().square()).sum(1)

    monkeypatch.setattr(outer, "_in_double", unlimited)
    assert not all(bool(torch.isfinite(part).all()) for part in ellipsoid_sum("bookkeeping", slice(None)).values())


MODELS = {
    "one position": Target(lambda: nn.Linear(4, 3), (4,)),
    "two layers": Target(lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)), (4,)),
    "products": Target(lambda: nn.Linear(4, 3), (6, 4)),
    "gram": Target(lambda: nn.Linear(32, 32), (2, 32)),
    "convolution": Target(lambda: nn.Conv1d(4, 3, 2), (4, 6)),
    "convolution, gram": Target(lambda: nn.Conv1d(32, 32, 2), (32, 4)),
    "transposed": Target(lambda: nn.ConvTranspose1d(4, 3, 2), (4, 6)),
    "layer norm": Target(lambda: nn.LayerNorm(4), (5, 4)),
    "group norm": Target(lambda: nn.GroupNorm(2, 4), (4, 5)),
    "slope": Target(lambda: nn.PReLU(4), (4, 5)),
    "embedding": Target(Embedded, (6, 4)),
    "bilinear": Target(Paired, (4,)),
    "recurrent": Target(Recurrent, (3, 4)),
    "no rule": Target(lambda: Copied(InPlace()), (4,)),
    "gate": Target(Gated, (5,)),
}


@dataclass(frozen=True)
class Scaled:
    """A power of ten with a few digits; signs may change from place to place."""

    power: float
    alternate: bool

    def fill(self, tensor: Tensor) -> Tensor:
        filled = (tensor.double() * 10.0**self.power).float()
        signs = torch.tensor([1.0, -1.0]).repeat(filled.numel() // 2 + 1)[: filled.numel()].view(filled.shape)
        return filled * signs if self.alternate else filled


SCALED = st.builds(Scaled, st.floats(-38, 38), st.booleans())


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    name=st.sampled_from(sorted(MODELS)),
    row=SCALED,
    label=SCALED,
    loss=st.sampled_from(LOSSES),
    norm=st.sampled_from([1e-3, 1.0, 300.0]),
    two=st.booleans(),
)
def test_no_size_of_a_row_moves_a_sum_further_than_the_sensitivity(
    engine: str, name: str, row: Scaled, label: Scaled, loss: Callable[[Tensor, Tensor], Tensor], norm: float, two: bool
) -> None:
    model, inputs, targets = MODELS[name].make()
    inputs[-1], targets[-1:] = row.fill(inputs[-1]), label.fill(targets[-1:])
    if two:
        inputs[-2], targets[-2] = inputs[-1], -targets[-1]
    batch = Batch(model, loss, inputs, targets, (1, 1, 1, 2) if two else (1,) * ROWS)
    assert share_moved(CHECKED[engine], batch, norm) <= 1
