"""Strokes against loops, and front ends side by side."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from layers import difference
from torch import nn

from discreet import InputError
from discreet.features import FRONT_ENDS, Beside, Edges, RowNorm, Strokes
from discreet.features.colours import Colours

Array = np.ndarray


def gradients(x: Array) -> Array:
    """(c, h, w) -> (4 c, h, w): all gx, all gy, then the same vectors with their angles doubled; black outside."""
    p = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    found = np.zeros((4, *x.shape))
    for c, i, j in np.ndindex(x.shape):
        gx, gy = p[c, i + 1, j + 2] - p[c, i + 1, j], p[c, i + 2, j + 1] - p[c, i, j + 1]
        size, angle = math.hypot(gx, gy), 2 * math.atan2(gy, gx)
        found[:, c, i, j] = gx, gy, size * math.cos(angle), size * math.sin(angle)
    return found.reshape(-1, *x.shape[1:])


def pooled(x: Array, size: int, stride: int) -> Array:
    down, across = ((n - size) // stride + 1 for n in x.shape[1:])
    cells = [
        [x[:, stride * i : stride * i + size, stride * j : stride * j + size].mean((1, 2)) for j in range(across)]
        for i in range(down)
    ]
    return np.array(cells).transpose(2, 0, 1)


def test_strokes_are_the_direct_ones() -> None:
    x = torch.rand(2, 1, 12, 15, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = Strokes(3.0)(x)
    for row in range(2):
        image = x[row].numpy()
        fine, coarse = pooled(gradients(image), 2, 2), gradients(pooled(image, 2, 2))
        parts = [pooled(part, 3, 2).ravel() for part in (fine, coarse, gradients(fine[2:]))]
        joined = np.concatenate([part / np.linalg.norm(part) for part in parts])
        np.testing.assert_allclose(found[row].numpy(), 3 * joined / np.linalg.norm(joined), rtol=0, atol=1e-5)


def test_a_stroke_and_its_negative_have_the_same_doubled_directions() -> None:
    x = torch.rand(1, 1, 12, 12, dtype=torch.float64)
    here, there = Strokes()(x), Strokes()(-x)
    same = torch.isclose(here, there, atol=1e-9)
    opposite = torch.isclose(here, -there, atol=1e-9)
    assert bool((same | opposite).all())
    assert int(same.sum()) >= here.numel() // 3


def test_parts_have_their_shares_of_the_squared_norm() -> None:
    x = torch.rand(5, 1, 12, 12)
    parts = [Strokes(), RowNorm()]
    both = Beside(parts, [3.0, 1.0], size=2.0)(x)
    widths = [part(x).shape[1] for part in parts]
    for piece, part, share in zip(both.split(widths, 1), parts, (0.75, 0.25), strict=True):
        torch.testing.assert_close(piece.square().sum(1), torch.full((5,), 4 * share))
        torch.testing.assert_close(nn.functional.normalize(piece), nn.functional.normalize(part(x)))


def test_a_row_of_zeros_stays_zero() -> None:
    assert bool((RowNorm()(torch.zeros(2, 3)) == 0).all())
    assert bool((Beside([RowNorm()], [1.0])(torch.zeros(2, 3)) == 0).all())


def test_edges_are_the_direct_ones() -> None:
    x = torch.rand(2, 3, 12, 14, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = Edges()(x)
    assert found.shape == (2, 400 + 16 * 3)
    for row in range(2):
        image = x[row].numpy()
        grey = image.mean(0)
        parts = [places(strengths(grey), 5), places(strengths(pooled(grey[None], 2, 2)[0]), 5), places(image - 0.5, 4)]
        joined = np.concatenate([part / np.linalg.norm(part) for part in parts])
        np.testing.assert_allclose(found[row].numpy(), joined, rtol=0, atol=1e-6)


def strengths(grey: Array) -> Array:
    """(h, w) -> (8, h, w): how far brightness rises in eight directions, over the root of their mean square."""
    h, w = grey.shape
    found = np.zeros((8, h, w))
    for i, j in np.ndindex(h, w):
        rise = np.array([at(grey, i, j + 1) - at(grey, i, j - 1), at(grey, i + 1, j) - at(grey, i - 1, j)])
        along = [rise @ [math.cos(k * math.pi / 4), math.sin(k * math.pi / 4)] for k in range(8)]
        positive = np.maximum(along, 0)
        found[:, i, j] = positive / math.sqrt((positive**2).mean() + 1e-3)
    return found


def at(grey: Array, i: int, j: int) -> float:
    """A pixel, or the nearest one of the border."""
    return float(grey[min(max(i, 0), grey.shape[0] - 1), min(max(j, 0), grey.shape[1] - 1)])


def places(x: Array, n: int) -> Array:
    """Means on n x n places, each from floor to ceiling of its share."""
    _, h, w = x.shape
    cells = [
        x[:, i * h // n : -(-(i + 1) * h // n), j * w // n : -(-(j + 1) * w // n)].mean((1, 2))
        for i in range(n)
        for j in range(n)
    ]
    return np.array(cells).T.ravel()


def test_colours_are_means_of_places() -> None:
    """By another way, for a size that places do not divide; and what is grey alike is told apart."""
    images = np.random.default_rng(0).random((3, 3, 9, 10))
    found = Colours(places=4)(torch.from_numpy(images)).numpy()
    grey = images.mean(1, keepdims=True)
    wanted = [np.concatenate([places(g - 0.5, 4), 3 * places(x - g, 4)]) for x, g in zip(images, grey, strict=True)]
    np.testing.assert_allclose(found, np.array(wanted), atol=1e-12)
    red, green = torch.zeros(1, 3, 8, 8), torch.zeros(1, 3, 8, 8)
    red[:, 0], green[:, 1] = 0.587, 0.299
    assert (FRONT_ENDS["colours"]((3, 8, 8))(red) - FRONT_ENDS["colours"]((3, 8, 8))(green)).norm() > 2


def test_mistakes_are_named() -> None:
    with pytest.raises(InputError, match="1 front ends need as many shares, got 2"):
        Beside([RowNorm()], [1.0, 2.0])
    with pytest.raises(InputError, match="share"):
        Beside([RowNorm()], [0.0])
    with pytest.raises(InputError, match="size"):
        RowNorm(-1.0)
    with pytest.raises(InputError, match="at least 6 pixels"):
        Strokes()(torch.zeros(1, 3, 28, 28))
    with pytest.raises(InputError, match="of 10 pixels a side or more"):
        Edges()(torch.zeros(1, 3, 28, 9))
    with pytest.raises(InputError, match="at least 4 pixels a side"):
        Colours()(torch.zeros(1, 3, 28, 3))


@pytest.mark.parametrize("engine", ["bookkeeping", "vmap", "exact"])
@pytest.mark.parametrize("name", FRONT_ENDS)
def test_a_model_may_begin_with_it(name: str, engine: str) -> None:
    """Not precomputed: every engine clips what stands behind it."""
    options = {"scattering": {"angles": 2, "groups": 3}, "random_convolutions": {"filters": 4, "groups": 2}}
    options |= {"vgg16": {"width": 4}, "alexnet": {"width": 4}}
    shape = {"vgg16": (3, 32, 32), "alexnet": (3, 12, 12)}.get(name, (1, 12, 12))
    front_end = FRONT_ENDS[name](shape, **options.get(name, {}))
    inputs = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    model = nn.Sequential(front_end, nn.Linear(front_end(inputs).shape[1], 3))
    assert {key for key, _ in model.named_parameters()} == {"1.weight", "1.bias"}
    assert difference(engine, model, inputs, torch.rand(4) + 0.1, 0.5) <= 1e-5
