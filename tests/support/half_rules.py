"""Linear layers in half precision: what their rule computes, beside the same in double precision."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.clipping.rules.linear import LinearRule

SIZES = {"Gram matrices": (6, 8, 96, 80), "products": (6, 40, 24, 20), "products of odd sizes": (6, 40, 21, 19)}
"""By way of measuring: examples, positions, inputs, outputs."""


def half_rule(way: str, device: str, kind: torch.dtype = torch.bfloat16) -> tuple[LinearRule, Tensor]:
    """The rule of a layer whose outputs are in half precision, and every example's gradient in double precision."""
    examples, positions, inputs, outputs = SIZES[way]
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(examples, positions, inputs, generator=generator).to(device)
    g = torch.randn(examples, positions, outputs, generator=generator).to(device, kind)
    layer = nn.Linear(inputs, outputs).to(device)
    wanted = torch.bmm(g.double().transpose(1, 2), a.to(kind).double())
    return LinearRule(layer, ("weight", "bias"), (a,), {}, (g,)), wanted


def check_half_rule(way: str, device: str, kind: torch.dtype = torch.bfloat16) -> None:
    """Norms and sums have the digits of single precision, and no norm is below that of the gradient."""
    rule, wanted = half_rule(way, device, kind)
    weights = torch.linspace(0.01, 1.3, len(wanted), dtype=torch.float64, device=device)
    squares = rule.squares("weight")
    lengths = wanted.flatten(1).norm(dim=1).square()
    assert (squares >= lengths * (1 - 1e-6)).all()
    torch.testing.assert_close(squares, lengths, rtol=2e-4, atol=0)  # room for the rounding of Gram matrices
    total = (weights.view(-1, 1, 1) * wanted).sum(0)
    torch.testing.assert_close(rule.total("weight", weights).double(), total, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(rule.rows("weight", 1, 3).double(), wanted[1:3], rtol=1e-5, atol=1e-4)
    biases = rule.gradient.double().sum(1)
    torch.testing.assert_close(rule.squares("bias"), biases.square().sum(1), rtol=1e-5, atol=0)
    torch.testing.assert_close(rule.total("bias", weights).double(), weights @ biases, rtol=1e-5, atol=1e-4)
