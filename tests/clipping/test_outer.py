"""Scaled norms and boxed sums of outer products, against the products themselves in double precision."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.rules.products import outer

SHAPES = st.tuples(st.integers(1, 70), st.integers(1, 20), st.integers(1, 20))


def drawn(shape: tuple[int, int, int], seed: int, spread: float) -> tuple[Tensor, Tensor, Tensor]:
    """a, g and scales; each row of a and g has a size of its own."""
    count, inputs, outputs = shape
    generator = torch.Generator().manual_seed(seed)

    def rows(width: int) -> Tensor:
        sizes = torch.exp(spread * torch.randn(count, 1, generator=generator))
        return torch.randn(count, width, generator=generator) * sizes

    scale = torch.exp(torch.randn(outputs, inputs, generator=generator, dtype=torch.float64) * 2)
    return rows(inputs), rows(outputs), scale


def products(a: Tensor, g: Tensor, scale: Tensor) -> Tensor:
    """g a^T / scale for each example, in double precision."""
    return g.double().unsqueeze(2) * a.double().unsqueeze(1) / scale


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 2**31), st.sampled_from([0.5, 3.0, 12.0]))
def test_scaled_norms_are_those_of_the_products(shape: tuple[int, int, int], seed: int, spread: float) -> None:
    a, g, scale = drawn(shape, seed, spread)
    wanted = products(a, g, scale).square().flatten(1).sum(1)
    torch.testing.assert_close(outer.scaled_squares(a, g, scale), wanted, rtol=2e-6, atol=0)
    wide = a.double(), g.double(), scale.clone()
    torch.testing.assert_close(outer.scaled_squares(*wide), wanted, rtol=1e-12, atol=0)
    assert torch.equal(wide[0], a.double())  # nothing is written to
    assert torch.equal(wide[1], g.double())
    assert torch.equal(wide[2], scale)


@settings(max_examples=40, deadline=None)
@given(SHAPES, st.integers(0, 2**31), st.sampled_from([0.5, 3.0]))
def test_boxed_sums_are_those_of_the_products(shape: tuple[int, int, int], seed: int, spread: float) -> None:
    a, g, scale = drawn(shape, seed, spread)
    wanted = products(a, g, scale).clamp(-1, 1).sum(0)
    found = outer.boxed_sum(a, g, scale)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, wanted, rtol=0, atol=2e-6 * shape[0])


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-12, 1e12, 1e19])
@pytest.mark.parametrize("ratio", [1.0, 1e9])
def test_norms_beyond_single_precision_are_right(size: float, ratio: float) -> None:
    """Squares of these overflow or vanish in single precision."""
    a, g, scale = drawn((5, 4, 3), 1, 0.5)
    a[1] *= size
    scale[0] *= ratio
    wanted = products(a, g, scale).square().flatten(1).sum(1)
    torch.testing.assert_close(outer.scaled_squares(a, g, scale), wanted, rtol=2e-6, atol=0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_no_finite_norm_and_leaves_the_others_alone(value: float) -> None:
    a, g, scale = drawn((5, 4, 3), 2, 0.5)
    wanted = outer.scaled_squares(a, g, scale)
    a[2, 1] = value
    found = outer.scaled_squares(a, g, scale)
    assert not math.isfinite(found[2])
    keep = [0, 1, 3, 4]
    assert torch.equal(found[keep], wanted[keep])


def test_a_box_over_a_linear_layer_forms_no_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.clipping.rules.linear import LinearRule

    model, inputs, targets = nn.Linear(20, 8), torch.randn(50, 20), torch.arange(50) % 8
    scales = {"weight": torch.full((8, 20), 0.1).double(), "bias": torch.full((8,), 0.1).double()}
    formed = []
    real = LinearRule.rows
    monkeypatch.setattr(LinearRule, "rows", lambda self, name, *rest: formed.append(name) or real(self, name, *rest))
    clip = Clip.boxed(scales, 2.0**-30)
    found = ENGINES["bookkeeping"].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), clip)
    wanted = ENGINES["reference"].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), clip)
    assert "weight" not in formed
    for name, total in wanted.items():
        torch.testing.assert_close(found[name], total, rtol=0, atol=1e-4)
