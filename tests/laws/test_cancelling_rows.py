"""Law of every rule, fast engine and way to clip: no unit adds more than the sensitivity, however its terms cancel.

What an engine adds up of a unit is much longer than the unit's gradient then, and so is its rounding: gradients at two
places that cancel, or those of two rows.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from clips import CLIPS
from rule_modules import MODULES, Draws, Row, summed
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.rules import conv
from discreet.clipping.rules.numbers import TOGETHER

CLIP_NORM = 1e-3


def at_two_places(draws: Draws, axis: int, size: float) -> list[Row]:
    """One row, whose inputs are the same along `axis`, and whose gradients cancel there but for a thousandth."""
    inputs, gradients = draws.inputs(1.0), draws.gradient() * size
    axis = axis if inputs.dim() > 1 else 0
    inputs = inputs.narrow(axis, 0, 1).expand(inputs.shape).clone()
    first, rest = gradients.narrow(axis, 0, 1), gradients.narrow(axis, 1, gradients.shape[axis] - 1)
    first.copy_(1e-3 * torch.randn(first.shape, generator=draws.numbers) - rest.sum(axis, keepdim=True))
    return [(inputs, gradients)]


def in_two_rows(draws: Draws, size: float) -> list[Row]:
    """Two rows with the same inputs, whose gradients cancel but for a thousandth."""
    inputs, gradients = draws.inputs(1.0), draws.gradient() * size
    return [(inputs, gradients), (inputs, 1e-3 * draws.gradient() - gradients)]


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", MODULES)
def test_terms_that_cancel_move_no_sum_by_more_than_the_sensitivity(name: str, engine: str) -> None:
    for size in (1e3, 1e5):
        draws = Draws(name, round(size))
        units = [in_two_rows(draws, size)]
        if len(draws.outputs) > 1:
            units += [at_two_places(draws, axis, size) for axis in (0, -1)]
        chunk = [[(draws.inputs(1.0), draws.gradient())] for _ in range(3)]
        for way, clipped in CLIPS.items():
            clip = clipped(draws.model, CLIP_NORM)
            for unit in units:
                with_it, without = (
                    summed(engine, draws.model, clip, len(unit), one) for one in ([*chunk, unit], chunk)
                )
                most = clip.sensitivity + 2 * 2.0**-20 * clip.spread * (len(chunk) + 1)
                assert float((with_it - without).norm()) <= most, (way, size, len(unit))


OTHERS = 0.0371
"""The gradients of other rows, which all round alike beside a long term."""


def moved_among(model: nn.Module, unit: Row, other: Row, count: int, place: int) -> float:
    """By how many clip norms a unit moves the sum of a chunk of `count` rows at a place among others, all the same."""
    rows = [[other]] * (count - 1)
    clip = Clip(1.0, 2.0**-30)
    sums = [summed("bookkeeping", model, clip, 1, one) for one in ([*rows[:place], [unit], *rows[place:]], rows)]
    return float((sums[0] - sums[1]).norm())


class Both(nn.Module):
    """A layer that is called twice, and shows both outputs."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([self.layer(x), self.layer(x)], 1)


def test_other_rows_do_not_round_beside_a_long_term_of_another_call() -> None:
    """A gradient that is long in each of two calls and cancels; what is added to it in one call is a thousand rows."""
    unit, other = torch.zeros(2, 15), torch.zeros(2, 15)
    unit[0], unit[1], other[0] = 1e5, -1e5, OTHERS
    x = torch.full((15,), 0.5)
    assert moved_among(Both(nn.LayerNorm(15)), (x, unit), (x, other), 1024, 0) <= 1.001


class Products(TorchDispatchMode):
    """Counts the terms of the matrix products that make, or are added to, a matrix of 256 x 256."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: list[int] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = operator(*args, **(kwargs or {}))
        if operator.name() in ("aten::mm", "aten::addmm_") and found.shape == (256, 256):
            self.terms.append(args[-2].shape[1])
        return found


def terms_of_convolutions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Those of sums of a convolution's gradients, as they are formed."""
    terms: list[int] = []
    weight_sum = conv.Convolution._weight_sum

    def counted(rule: conv.Convolution, source: Tensor, values: Tensor) -> Tensor:
        terms.append(values[:, 0].numel())
        return weight_sum(rule, source, values)

    monkeypatch.setattr(conv.Convolution, "_weight_sum", counted)
    return terms


@pytest.mark.parametrize("places", [2, 5, 20])
def test_few_terms_of_other_rows_are_added_up_beside_those_of_a_row(
    places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Products are added up in blocks, on whose both sides the places of a row may lie. At 384 terms a block, and 1024
    rows of 5 places, a row moved a sum by 1.3 clip norms when all rows were one product."""
    of_convolution = terms_of_convolutions(monkeypatch)
    with Products() as of_linear:
        for layer, shape in ((nn.Linear(256, 256), (places, 256)), (nn.Conv1d(256, 256, 1), (256, places))):
            rows = Chunk(torch.randn(70, *shape), torch.zeros(70))
            ENGINES["bookkeeping"].clipped_sum(layer, lambda y, _: y.sum(), rows, Clip(1.0, 2.0**-30))
    for terms in (of_linear.terms, of_convolution):
        assert sum(terms) == 70 * places
        assert all(count <= max(places, TOGETHER) for count in terms)
