"""Front ends by the names that recipes give them, with the rows of their features scaled alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.features.colours import Colours
from discreet.features.edges import Edges
from discreet.features.hog import Hog
from discreet.features.random_convolutions import RandomConvolutions
from discreet.features.scattering import Scattering
from discreet.features.strokes import Strokes
from discreet.features.trained_convolutions import convolutions

SIZE = 10.0
"""The L2 norm of every row of features."""


class RowNorm(nn.Module):
    """Each row as a vector of L2 norm `size`: (n, ...) -> (n, features). A row of zeros stays zero."""

    def __init__(self, size: float = SIZE) -> None:
        super().__init__()
        self.size = checks.positive("size", size)

    def forward(self, rows: Tensor) -> Tensor:
        return self.size * F.normalize(rows.flatten(1), dim=1)


class Beside(nn.Module):
    """Several front ends side by side, as one row of L2 norm `size`; each has its share of the squared norm."""

    def __init__(self, parts: Sequence[nn.Module], shares: Sequence[float], size: float = SIZE) -> None:
        super().__init__()
        if not parts or len(parts) != len(shares):
            raise InputError(f"beside: {len(parts)} front ends need as many shares, got {len(shares)}")
        whole = sum(checks.positive("share", share) for share in shares)
        self.parts, self.shares = nn.ModuleList(parts), [share / whole for share in shares]
        self.size = checks.positive("size", size)

    def forward(self, rows: Tensor) -> Tensor:
        pieces = [
            share**0.5 * F.normalize(part(rows).flatten(1), dim=1)
            for part, share in zip(self.parts, self.shares, strict=True)
        ]
        return self.size * torch.cat(pieces, dim=1)


def scattering(
    shape: tuple[int, ...], *, scales: int = 2, angles: int = 8, order: int = 2, groups: int = 27, size: float = SIZE
) -> nn.Module:
    """Scattering of images of `shape` (channels, h, w), normalised within each row by groups of channels.

    The groups' means and variances are those of one row, so no statistics of data enter (Tramèr and Boneh 2021 take 27
    groups of the 81 paths for one channel).
    """
    channels, height, width = _image(shape)
    paths = Scattering((height, width), scales=scales, angles=angles, order=order)
    norm = _group_norm(groups, channels * paths.paths)
    return nn.Sequential(paths, norm, RowNorm(size))


def hog(
    shape: tuple[int, ...], *, cell: int = 4, bins: int = 9, block: int = 2, eps: float = 0.01, size: float = SIZE
) -> nn.Module:
    """Histograms of oriented gradients of images of `shape` (channels, h, w)."""
    _image(shape)
    return nn.Sequential(Hog(cell=cell, bins=bins, block=block, eps=eps), RowNorm(size))


def random_convolutions(
    shape: tuple[int, ...],
    *,
    filters: int = 64,
    width: int = 5,
    pool: int = 4,
    seed: int = 0,
    groups: int = 16,
    size: float = SIZE,
) -> nn.Module:
    """Random filters of `width` x `width` pixels on images of `shape` (channels, h, w), normalised within each row."""
    channels, _, _ = _image(shape)
    layer = RandomConvolutions(channels, filters=filters, size=width, pool=pool, seed=seed)
    return nn.Sequential(layer, _group_norm(groups, 2 * filters), RowNorm(size))


def strokes(shape: tuple[int, ...], *, size: float = SIZE) -> nn.Module:
    """Directions of strokes and their turns, in images of one channel."""
    _image(shape)
    return Strokes(size)


def edges(shape: tuple[int, ...], *, size: float = SIZE) -> nn.Module:
    """Edges at two scales and colours, of images of `shape` (channels, h, w)."""
    _image(shape)
    return nn.Sequential(Edges(), RowNorm(size))


def colours(shape: tuple[int, ...], *, places: int = 4, size: float = SIZE) -> nn.Module:
    """Mean brightness and colours of `places` x `places` parts of images of `shape` (channels, h, w)."""
    _image(shape)
    return nn.Sequential(Colours(places=places), RowNorm(size))


def vgg16(
    shape: tuple[int, ...], *, weights: str | None = None, width: int = 64, seed: int = 0, size: float = SIZE
) -> nn.Module:
    """The convolutions of VGG-16, of a file of `weights` that are declared public, or drawn from `seed`."""
    return nn.Sequential(convolutions(shape, "vgg16", weights=weights, width=width, seed=seed), RowNorm(size))


def alexnet(
    shape: tuple[int, ...], *, weights: str | None = None, width: int = 64, seed: int = 0, size: float = SIZE
) -> nn.Module:
    """Two convolutions as in Xu et al. 2019, of a file of `weights` that are declared public, or drawn from `seed`."""
    return nn.Sequential(convolutions(shape, "alexnet", weights=weights, width=width, seed=seed), RowNorm(size))


FRONT_ENDS: dict[str, Callable[..., nn.Module]] = {
    "scattering": scattering,
    "hog": hog,
    "random_convolutions": random_convolutions,
    "strokes": strokes,
    "edges": edges,
    "colours": colours,
    "vgg16": vgg16,
    "alexnet": alexnet,
}
"""What recipes may name under `features`: each is given the shape of a row and its options, and is never trained."""


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    if len(shape) != 3:
        raise InputError(f"these features are for images (channels, height, width), but rows have shape {shape}")
    return shape[0], shape[1], shape[2]


def _group_norm(groups: int, channels: int) -> nn.Module:
    if channels % checks.count("groups", groups):
        raise InputError(f"features: {channels} channels cannot be divided into {groups} groups of one size")
    return nn.GroupNorm(groups, channels, affine=False)
