"""Scattering: fixed wavelets, moduli and averages, which hold knowledge about images without any data."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.core import checks
from discreet.core.errors import InputError

_XI, _SIGMA = 3 * math.pi / 4, 0.8
"""Centre frequency (radians a pixel) and width (pixels) of the finest Morlet wavelet; they halve and double with j."""


class Scattering(nn.Module):
    """The scattering transform of images, orders 0 to `order` (Bruna and Mallat 2013, sections 2 and 3).

    Input (n, channels, *shape); output (n, channels x paths, ceil(h / 2^scales), ceil(w / 2^scales)), in the type of
    the input. With J scales and L angles, paths is 1 + J L + L^2 J (J - 1) / 2: order 0 is the local average, order 1
    the averaged moduli of wavelet coefficients by scale and then angle, order 2 those of the moduli again, by the
    next, coarser scale.

    There are no parameters and no statistics of data: the buffers are Morlet wavelets and a Gaussian, which follow
    from J, L and the shape, so they are not in the state dictionary. Edges are mirrored. The Littlewood-Paley sum of
    the filters is at most 1, so that no step makes a difference between two images larger, but for the subsampling:
    what wavelet j gave is kept at every 2^(j - oversampling)-th pixel.
    """

    def __init__(
        self, shape: tuple[int, int], *, scales: int = 2, angles: int = 8, order: int = 2, oversampling: int = 0
    ) -> None:
        super().__init__()
        self.scales, self.angles = checks.count("scales", scales), checks.count("angles", angles)
        if order not in (0, 1, 2):
            raise InputError(f"scattering: order must be 0, 1 or 2, got {order!r}")
        if oversampling not in range(self.scales + 1):
            raise InputError(f"scattering: oversampling must be 0 to scales ({scales}), got {oversampling!r}")
        self.order, self.oversampling = order, oversampling
        step = 2**self.scales
        height, width = shape
        self.shape = (height, width)
        self.padded = tuple(-(-size // step) * step + 2 * step for size in shape)
        if any(full - size - step >= size for full, size in zip(self.padded, shape, strict=True)):
            raise InputError(f"scattering: images of {height} x {width} are too small for {scales} scales; use fewer")
        low, wavelets = filters(self.padded, self.scales, self.angles)
        self.register_buffer("low", low.float(), persistent=False)
        self.register_buffer("wavelets", wavelets.float(), persistent=False)  # (scales, angles, height, width)

    @property
    def paths(self) -> int:
        """Channels of the output for each channel of the input."""
        count = [1, self.scales * self.angles, self.angles**2 * self.scales * (self.scales - 1) // 2]
        return sum(count[: self.order + 1])

    def forward(self, images: Tensor) -> Tensor:
        if images.dim() != 4 or tuple(images.shape[-2:]) != self.shape:
            raise InputError(f"scattering: images must be (n, channels, {self.shape}), got {tuple(images.shape)}")
        step = 2**self.scales
        (top, left), (height, width) = (step, step), self.shape
        bottom, right = self.padded[0] - height - top, self.padded[1] - width - left
        spectrum = torch.fft.fft2(F.pad(images, (left, right, top, bottom), mode="reflect"))
        orders = [self._average(spectrum.unsqueeze(2), 0)]
        second: list[Tensor] = []
        for j in range(self.scales if self.order > 0 else 0):
            first, kept = self._moduli(spectrum.unsqueeze(2), 0, j)  # (n, channels, angles, ...)
            orders.append(self._average(first, kept))
            for k in range(j + 1, self.scales if self.order > 1 else 0):
                again, coarser = self._moduli(first.unsqueeze(3), kept, k)  # (n, channels, angles, angles, ...)
                second.append(self._average(again.flatten(2, 3), coarser))
        paths = torch.cat([*orders, *second], dim=2).flatten(1, 2)
        return paths[..., 1 : 1 - (-height // step), 1 : 1 - (-width // step)]

    def _moduli(self, spectrum: Tensor, kept: int, j: int) -> tuple[Tensor, int]:
        """Spectra of the moduli of all angles at scale j, and the power of two at which they are sampled.

        `spectrum`: of images sampled at every 2^kept-th pixel, with an axis for the angles.
        """
        coarser = max(j - self.oversampling, 0)
        wavelets = self.get_buffer("wavelets")[j]
        product = spectrum * fold(wavelets, kept, mean=False).to(spectrum.dtype)
        return torch.fft.fft2(torch.fft.ifft2(fold(product, coarser - kept)).abs()), coarser

    def _average(self, spectrum: Tensor, kept: int) -> Tensor:
        """The local averages at every 2^scales-th pixel."""
        product = spectrum * fold(self.get_buffer("low"), kept, mean=False).to(spectrum.dtype)
        return torch.real(torch.fft.ifft2(fold(product, self.scales - kept)))


def fold(spectrum: Tensor, times: int, *, mean: bool = True) -> Tensor:
    """The spectrum of a signal of which every 2^times-th sample is kept along both axes: aliases on one another.

    A signal's aliases are averaged. A filter's (`mean=False`) are added up: its samples count for more pixels each.
    """
    if times == 0:
        return spectrum
    parts = 2**times
    for axis in (-2, -1):
        spectrum, *aliases = torch.chunk(spectrum, parts, axis)
        for alias in aliases:
            spectrum = spectrum + alias
    return torch.div(spectrum, parts**2) if mean else spectrum


def filters(shape: tuple[int, ...], scales: int, angles: int) -> tuple[Tensor, Tensor]:
    """The Fourier transforms, real, of the Gaussian, (h, w), and of Morlet's wavelets, (scales, angles, h, w).

    The Gaussian has mean 1 and width 0.8 x 2^(scales - 1). Wavelet (j, l) is a plane wave of frequency
    3 pi / 4 x 2^-j at the angle pi l / L, under a Gaussian of width 0.8 x 2^j along the wave and, if there are more
    than four angles, L / 4 times that across, minus the multiple of the Gaussian that makes its mean zero. One factor
    for all wavelets makes the largest value of the Littlewood-Paley sum 1. All in float64.
    """
    low = _gabor(shape, _SIGMA * 2 ** (scales - 1), 0.0, 0.0, 1.0)
    low, slant = low / low[0, 0], min(1.0, 4 / angles)
    rows = []
    for j in range(scales):
        for number in range(angles):
            width, frequency, angle = _SIGMA * 2**j, _XI / 2**j, math.pi * number / angles
            wave = _gabor(shape, width, frequency, angle, slant)
            window = _gabor(shape, width, 0.0, angle, slant)
            rows.append(wave - wave[0, 0] / window[0, 0] * window)
    wavelets = torch.stack(rows)
    spread = littlewood_paley(torch.zeros_like(low), wavelets)
    room = (1 - low**2).clamp_min(0)
    seen = spread > 1e-12 * spread.max()
    wavelets = wavelets * (room[seen] / spread[seen]).min().sqrt()
    return low, wavelets.view(scales, angles, *shape)


def littlewood_paley(low: Tensor, wavelets: Tensor) -> Tensor:
    """|low|^2 + the mean of sum |wavelet|^2 at each frequency and at its negative: what filtering does to energy."""
    flat = wavelets.flatten(0, -3)
    return low**2 + (flat**2 + _negated(flat) ** 2).sum(0) / 2


def _negated(spectra: Tensor) -> Tensor:
    """The spectra at negative frequencies."""
    return spectra.flip(-2, -1).roll((1, 1), (-2, -1))


def _gabor(shape: tuple[int, ...], width: float, frequency: float, angle: float, slant: float) -> Tensor:
    """The transform of a sampled, wrapped Gabor function of integral 1: all aliases of one Gaussian bump.

    Standard deviation `width` along the angle, width / slant across, in pixels.
    """
    total = torch.zeros(shape[0], shape[1], dtype=torch.float64)
    cos, sin = math.cos(angle), math.sin(angle)
    rows, columns = (2 * math.pi * torch.fft.fftfreq(size, dtype=torch.float64) for size in shape)
    for up in range(-2, 3):
        for right in range(-2, 3):
            y, x = rows[:, None] + 2 * math.pi * up, columns[None, :] + 2 * math.pi * right
            along, across = cos * x + sin * y - frequency, (cos * y - sin * x) / slant
            total += torch.exp(-0.5 * width**2 * (along**2 + across**2))
    return total
