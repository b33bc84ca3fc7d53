"""Histograms of oriented gradients against loops, and their symmetries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from discreet import InputError
from discreet.features import Hog


def direct(x: np.ndarray, cell: int, bins: int, block: int, eps: float) -> np.ndarray:
    """One image (channels, h, w), pixel by pixel; (blocks, bins x block^2)."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), mode="edge")
    down, across = x.shape[1] // cell, x.shape[2] // cell
    cells = np.zeros((bins, down, across))
    for i in range(down * cell):
        for j in range(across * cell):
            gx = padded[:, i + 1, j + 2] - padded[:, i + 1, j]
            gy = padded[:, i + 2, j + 1] - padded[:, i, j + 1]
            c = int(np.argmax(gx**2 + gy**2))
            angle = math.atan2(gy[c], gx[c]) % math.pi
            place = angle / math.pi * bins
            low = math.floor(place)
            for one, share in ((low, 1 - (place - low)), (low + 1, place - low)):
                cells[one % bins, i // cell, j // cell] += share * math.hypot(gx[c], gy[c]) / cell**2
    found = []
    for i in range(down - block + 1):
        for j in range(across - block + 1):
            v = cells[:, i : i + block, j : j + block].reshape(-1)
            v = np.minimum(v / math.sqrt((v**2).sum() + eps**2), 0.2)
            found.append(v / math.sqrt((v**2).sum() + eps**2))
    return np.array(found)


@pytest.mark.parametrize(("channels", "cell", "bins", "block"), [(1, 4, 9, 2), (3, 3, 4, 1), (2, 2, 2, 3)])
def test_it_is_the_direct_one(channels: int, cell: int, bins: int, block: int) -> None:
    x = torch.rand(2, channels, 13, 10, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = Hog(cell=cell, bins=bins, block=block)(x)
    for row in range(2):
        wanted = direct(x[row].numpy(), cell, bins, block, 0.01)
        np.testing.assert_allclose(found[row].view(wanted.shape).numpy(), wanted, rtol=0, atol=1e-12)


def test_light_makes_no_difference_and_contrast_little() -> None:
    x = torch.rand(2, 1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    layer = Hog(eps=1e-6)
    torch.testing.assert_close(layer(x + 3), layer(x))
    torch.testing.assert_close(layer(7 * x), layer(x), rtol=0, atol=1e-6)
    torch.testing.assert_close(layer(-x), layer(x))  # directions from 0 to pi
    assert bool((layer(torch.full((1, 1, 16, 16), 0.5)) == 0).all())


def test_a_quarter_turn_moves_directions_by_half() -> None:
    x = torch.rand(1, 1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    layer = Hog(cell=4, bins=6, block=1)
    here = layer(x).view(4, 4, 6)
    turned = layer(x.rot90(1, (-2, -1))).view(4, 4, 6).roll(3, -1)
    torch.testing.assert_close(turned, here.rot90(1, (0, 1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{"cell": 0}, {"bins": 0}, {"block": -1}, {"eps": 0.0}])
def test_bad_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        Hog(**options)


def test_small_images_are_refused() -> None:
    with pytest.raises(InputError, match="at least 8"):
        Hog()(torch.zeros(1, 1, 7, 28))
