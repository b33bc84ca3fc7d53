"""Norms by Gram matrices are those of the products; where rounding takes from them, they are never too short."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.rules import base
from discreet.clipping.rules.products import gram
from discreet.clipping.rules.products.gram import gram_and_rounding, gram_squares

ROUNDED = gram._ROUNDED + 1e-4


def exact(a: Tensor, g: Tensor) -> Tensor:
    """Squared norms of the sums over positions of g_t a_t^T."""
    return torch.einsum("bto,bti->boi", g.double(), a.double()).square().sum((1, 2))


def clusters(seed: int, positions: int, size: int) -> tuple[Tensor, Tensor]:
    """Activations of two nearly equal kinds, with gradients of opposite signs, half of the positions each.

    All dot products of one kind are rounded alike, so their errors add up. The sum over positions is an eighth to a
    quarter as long as if its terms were orthogonal.
    """
    value = 1 + random.Random(seed).random()
    a = torch.full((1, positions, size), value)
    a[:, positions // 2 :] = value * (1 - 1.02 / (4 * positions) ** 0.5)
    g = torch.zeros(1, positions, size)
    g[..., 0] = 1
    g[:, positions // 2 :, 0] = -1
    return a, g


@pytest.mark.parametrize("positions", [1, 63, 64, 65, 130])
def test_gram_matrices_measure_the_sum_of_products(positions: int) -> None:
    """Also where they are formed in halves, and where positions cancel."""
    generator = torch.Generator().manual_seed(positions)
    a, g = (torch.randn(5, positions, width, generator=generator, dtype=torch.float64) for width in (6, 4))
    a[3], g[3] = 1.0, 1.0
    g[3, ::2] = -1.0  # the products cancel, but for one if their number is odd
    wanted = exact(a, g)
    torch.testing.assert_close(gram_squares(a, g)[0], wanted, rtol=1e-10, atol=1e-20)
    found = gram_squares(a.float(), g.float())[0]
    assert (found >= wanted * (1 - 1e-6)).all()
    assert (found <= wanted * (1 + ROUNDED) + 1e-20).all()


@pytest.mark.parametrize("positions", [8, 64, 65])
def test_gram_sums_are_not_below_the_squares_of_the_products(positions: int) -> None:
    for size in (2e-23, 1e-22, 1e-19, 1e-12, 1.0):
        a, g = torch.full((1, positions, 9), size), torch.full((1, positions, 7), 1e18)
        for one, other in ((a, g), (g, a)):
            assert (gram_squares(one, other)[0] >= exact(one, other) * (1 - 1e-5)).all()


@pytest.mark.parametrize("size", [32, 384, 1536])
@pytest.mark.parametrize("positions", [32, 128, 600])
def test_gram_sums_of_rows_that_are_rounded_alike_are_not_too_short(positions: int, size: int) -> None:
    for seed in range(4):
        a, g = clusters(seed, positions, size)
        assert (gram_squares(a, g)[0] >= exact(a, g) * (1 - 1e-6)).all()


def moved(seed: int) -> float:
    """How far a row of two clusters moves the clipped sum of its weight's gradients, in clip norms."""
    a, g = clusters(seed, 256, 1280)
    layer = nn.Linear(1280, 1280, bias=False)
    sums = ENGINES["bookkeeping"].clipped_sum(
        layer, lambda output, target: (output * target).sum(), Chunk(a, g), Clip(1.0, 2.0**-40)
    )
    return sums["weight"].double().norm().item()


def test_a_row_that_is_rounded_alike_contributes_no_more_than_the_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without room for rounding, in the norm and in the sum, it contributes 0.2 % more."""
    assert all(0.98 < moved(seed) <= 1 + 1e-6 for seed in range(4))
    monkeypatch.setattr(gram, "_rounding", lambda ours, *_: torch.zeros_like(ours.trace))
    monkeypatch.setattr(gram, "with_rounding", lambda squares, *_: squares)
    assert max(moved(seed) for seed in range(4)) > 1.001


def test_rounding_hardly_lengthens_ordinary_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    a, g = (torch.randn(8, 256, width, generator=generator) for width in (256, 512))
    torch.testing.assert_close(gram_and_rounding(a, g), exact(a, g), rtol=2e-3, atol=0)


def dropped(positions: int, size: int, block: int) -> tuple[Tensor, Tensor]:
    """Vectors of a large number and many just under half a unit in its last place, which are lost one after the other;
    those of the second half are rounded up where those of the first are rounded down."""

    def two_kinds(sign: float) -> Tensor:
        vectors, half = torch.zeros(1, positions, size), positions // 2
        vectors[:, :half, :block], vectors[:, :half, 0] = (0.99 * 2**-24) ** 0.5, 1
        vectors[:, half:, :block], vectors[:, half:, 0] = (0.99 * 2**-25) ** 0.5, 0.914
        vectors[:, half:] *= sign
        return vectors

    return two_kinds(1.0), two_kinds(-1.0)


@pytest.mark.parametrize("shape", [(64, 192, 192), (64, 384, 384), (128, 1280, 384)])
def test_sums_in_the_worst_order_are_not_too_short(shape: tuple[int, int, int]) -> None:
    a, g = dropped(*shape)
    assert (gram_squares(a, g)[0] >= exact(a, g) * (1 - 1e-6)).all()


def lost_in_the_total(lead: int, positions: int) -> tuple[Tensor, Tensor]:
    """An example, the last of three, of which all but one position cancel; what is left is half a unit in the last
    place of the first term for each position, which a sum in another order loses."""
    a, g = torch.zeros(3, positions, 256), torch.zeros(3, positions, 256)
    g[2, :, 0] = 1
    a[2, lead, 0], a[2, lead + 1 : -1, 0] = 1, 0.98 * 2**-24
    a[2, -1, 0] = -float(a[2, :, 0].double().sum())
    return a, g


@pytest.mark.parametrize(("lead", "positions"), [(159, 320), (127, 256)])
def test_a_total_in_another_order_lets_no_more_through(
    lead: int, positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "BUDGET", 2**18)
    a, g = lost_in_the_total(lead, positions)
    layer = nn.Linear(256, 256, bias=False)
    sums = ENGINES["bookkeeping"].clipped_sum(
        layer, lambda output, target: (output * target).sum(), Chunk(a, g), Clip(1e-9, 2.0**-60)
    )
    assert sums["weight"].double().norm().item() <= 1e-9 * (1 + 1e-5)


def rows_of(kind: str, count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    a, g = torch.randn(1, 32, 256, generator=generator), torch.randn(1, 32, 256, generator=generator)
    if kind == "cancelling":
        a, g = a[:, :1].expand(1, 32, 256).clone(), g[:, :1].expand(1, 32, 256).clone()
        g[:, ::2] *= -1
        g[:, 0] *= 1 + 2e-4
    return a.expand(count, 32, 256).contiguous(), g.expand(count, 32, 256).contiguous()


@pytest.mark.parametrize("kind", ["ordinary", "cancelling"])
def test_the_norm_of_a_row_does_not_depend_on_the_number_of_rows(kind: str) -> None:
    """Where there is memory for the products of few rows only, the norms of all are found in the same way."""

    def weighted(count: int, more: int) -> Tensor:
        a, g = rows_of(kind, count)
        nothing = torch.zeros(more, 32, 256)
        layer, clip = nn.Linear(256, 256, bias=False), Clip(1e-3, 2.0**-60)
        sums = ENGINES["bookkeeping"].clipped_sum(
            layer, lambda y, t: (y * t).sum(), Chunk(torch.cat([a, nothing]), torch.cat([g, nothing])), clip
        )
        return sums["weight"].double() / clip.norm

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "BUDGET", 32 * 256 * 256 * 4)
        for more in (1, 32):
            apart = weighted(32, 0) - weighted(32, more)
            assert float(apart.norm()) <= 2**-20 * (32 + more)
