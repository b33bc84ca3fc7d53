"""Layers that compute something else than their type have no rule, and get the right gradient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from mixing_modules import CLASSES, FEATURES, HIDDEN, Two
from mixing_runs import CLIP, training
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk
from discreet.clipping.capture.owners import rule_of


class Standardised(nn.Conv1d):
    """A convolution whose class lets other weights take part."""

    def _conv_forward(self, given: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(given, weight - weight.mean((1, 2), keepdim=True), bias)


class OwnNumber(nn.LayerNorm):
    """One that computes what torch's norm reads."""

    @property
    def eps(self) -> float:
        return 1.0

    @eps.setter
    def eps(self, value: float) -> None:
        pass


def doubled() -> nn.Module:
    """A layer with a forward pass that was put into it."""
    layer = nn.Linear(HIDDEN, HIDDEN)
    layer.forward = Doubled(layer)  # type: ignore[method-assign,assignment]
    return layer


class Doubled:
    """What is put there: copied with the layer, as functions are not."""

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer

    def __call__(self, h: Tensor) -> Tensor:
        return F.linear(h, self.layer.weight * 2, self.layer.bias)


def shared(layer: nn.Module) -> nn.Module:
    """The layer, with its weight as its bias."""
    layer.bias = layer.weight
    return layer


class Lines(nn.Module):
    """A convolution of rows as lines of one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Standardised(1, 1, 3, padding=1)

    def forward(self, h: Tensor) -> Tensor:
        found: Tensor = self.inner(h.unsqueeze(1)).squeeze(1)
        return found


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "another method": Lines,
    "a property": lambda: OwnNumber(HIDDEN),
    "another forward pass": doubled,
    "one weight twice": lambda: shared(nn.GroupNorm(2, HIDDEN)),
    "one weight twice, broadcast": lambda: shared(nn.LayerNorm(HIDDEN)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_computes_something_else_than_its_type_has_no_rule_and_the_right_gradient(
    name: str, tmp_path: Path
) -> None:
    class Other(Two):
        def __init__(self) -> None:
            super().__init__()
            self.other = OTHERS[name]()

        def between(self, h: Tensor) -> Tensor:
            found: Tensor = self.other(h)
            return found

    assert rule_of(getattr(Other().other, "inner", Other().other)) is None
    run = training(Other, "bookkeeping", tmp_path)
    chunk = Chunk(torch.randn(9, FEATURES), torch.arange(9) % CLASSES)
    found = run.engine.clipped_sum(run.model, run.criterion, chunk, CLIP)
    wanted = ENGINES["reference"].clipped_sum(run.model, run.criterion, chunk, CLIP)
    for key, part in wanted.items():
        torch.testing.assert_close(found[key].double(), part, rtol=1e-4, atol=1e-4)


class Derived(nn.Linear):
    """One that computes what its type does."""

    def __init__(self) -> None:
        super().__init__(HIDDEN, HIDDEN)
        self.seen = 0

    def extra_repr(self) -> str:
        return "own"

    def train(self, mode: bool = True) -> Derived:
        super().train(mode)
        return self


def test_what_computes_what_its_type_does_has_the_rule_of_that() -> None:
    assert rule_of(Derived()) is rule_of(nn.Linear(2, 2)) is not None
