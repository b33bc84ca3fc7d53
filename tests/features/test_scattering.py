"""Scattering against a slow, direct one, and what the theory promises of it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from discreet import InputError
from discreet.features import Scattering
from discreet.features.scattering import filters, littlewood_paley


def image(size: int = 28, seed: int = 0, margin: int = 0) -> Tensor:
    """Smooth noise between 0 and 1, (1, 1, size, size), black within `margin` pixels of the edges."""
    generator = torch.Generator().manual_seed(seed)
    rough = torch.rand(1, 1, size, size, generator=generator, dtype=torch.float64)
    smooth = torch.nn.functional.avg_pool2d(rough, 3, 1, 1, count_include_pad=False)
    mask = torch.zeros_like(smooth)
    mask[..., margin : size - margin, margin : size - margin] = 1
    return smooth * mask


def direct_filters(shape: tuple[int, int], scales: int, angles: int) -> tuple[np.ndarray, np.ndarray]:
    """Gabor functions sampled in space and wrapped around; their definition, without a Fourier transform."""

    def wrapped(width: float, frequency: float, angle: float, slant: float) -> np.ndarray:
        total = np.zeros(shape, complex)
        for up, right in itertools.product(range(-3, 4), repeat=2):
            y = np.arange(shape[0])[:, None] + up * shape[0]
            x = np.arange(shape[1])[None, :] + right * shape[1]
            along = math.cos(angle) * x + math.sin(angle) * y
            across = math.cos(angle) * y - math.sin(angle) * x
            envelope = np.exp(-(along**2 + slant**2 * across**2) / (2 * width**2))
            total += slant / (2 * math.pi * width**2) * envelope * np.exp(1j * frequency * along)
        return total

    low = wrapped(0.8 * 2 ** (scales - 1), 0.0, 0.0, 1.0).real
    low, waves, slant = low / low.sum(), [], min(1, 4 / angles)
    for j, number in itertools.product(range(scales), range(angles)):
        angle, width = math.pi * number / angles, 0.8 * 2**j
        wave = wrapped(width, 0.75 * math.pi / 2**j, angle, slant)
        window = wrapped(width, 0.0, angle, slant)
        waves.append(wave - wave.sum() / window.sum() * window)
    spectra = np.fft.fft2(np.array(waves))
    spread = (np.abs(spectra) ** 2 + np.abs(np.fft.fft2(np.conj(waves))) ** 2).sum(0) / 2
    room = 1 - np.abs(np.fft.fft2(low)) ** 2
    seen = spread > 1e-12 * spread.max()
    return low, np.array(waves) * np.sqrt((room[seen] / spread[seen]).min())


def convolved(signal: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Circular convolution, sum by sum."""
    height, width = signal.shape
    answer = np.zeros(signal.shape, complex)
    for y, x in itertools.product(range(height), range(width)):
        answer += signal[y, x] * np.roll(kernel, (y, x), (0, 1))
    return answer


def direct_scattering(x: np.ndarray, scales: int, angles: int, over: int) -> np.ndarray:
    """One image, pixel by pixel; (paths, h, w)."""
    step = 2**scales
    extra = [(step, -(-size // step) * step + step - size) for size in x.shape]
    padded = np.pad(x, extra, mode="reflect")
    low, waves = direct_filters(padded.shape, scales, angles)
    waves = waves.reshape(scales, angles, *padded.shape)

    def averaged(u: np.ndarray, rate: int) -> np.ndarray:
        kernel = low[::rate, ::rate] * rate**2
        every = step // rate
        return convolved(u, kernel).real[::every, ::every]

    def modulus(u: np.ndarray, rate: int, wave: np.ndarray, j: int) -> tuple[np.ndarray, int]:
        new = 2 ** max(j - over, 0)
        full = np.abs(convolved(u, wave[::rate, ::rate] * rate**2))
        return full[:: new // rate, :: new // rate], new

    paths, second = [averaged(padded, 1)], []
    for j in range(scales):
        firsts = [modulus(padded, 1, waves[j, number], j) for number in range(angles)]
        paths += [averaged(u, rate) for u, rate in firsts]
        for k in range(j + 1, scales):
            for u, rate in firsts:
                second += [averaged(*modulus(u, rate, waves[k, number], k)) for number in range(angles)]
    kept = [slice(1, 1 + -(-size // step)) for size in x.shape]
    return np.array(paths + second)[:, kept[0], kept[1]]


@pytest.mark.parametrize(
    ("shape", "scales", "angles", "over"),
    [((6, 5), 1, 2, 0), ((8, 11), 2, 3, 0), ((8, 8), 2, 2, 1), ((16, 16), 3, 1, 0)],
)
def test_it_is_the_direct_one(shape: tuple[int, int], scales: int, angles: int, over: int) -> None:
    x = image(16)[..., : shape[0], : shape[1]].repeat(2, 2, 1, 1)
    x[1, 1] = x[1, 1].flip(0) ** 2
    layer = Scattering(shape, scales=scales, angles=angles, oversampling=over).double()
    layer.low, layer.wavelets = filters(layer.padded, scales, angles)
    found = layer(x)
    assert found.shape == (2, 2 * layer.paths, -(-shape[0] // 2**scales), -(-shape[1] // 2**scales))
    for row, channel in itertools.product(range(2), range(2)):
        wanted = direct_scattering(x[row, channel].numpy(), scales, angles, over)
        got = found[row, channel * layer.paths : (channel + 1) * layer.paths].numpy()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9)
    single = Scattering(shape, scales=scales, angles=angles, oversampling=over)(x.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), found, rtol=0, atol=2e-6)


@pytest.mark.parametrize(("size", "scales", "angles"), [(36, 2, 8), (20, 1, 1), (48, 3, 4), (32, 3, 6)])
def test_filters_take_no_energy_twice(size: int, scales: int, angles: int) -> None:
    """The Littlewood-Paley inequality (Bruna and Mallat 2013, equation 2), with equality somewhere."""
    low, waves = filters((size, size), scales, angles)
    energy = littlewood_paley(low, waves)
    assert float(energy.max()) == pytest.approx(1, abs=1e-12)
    assert float(energy.min()) > 0 or angles == 1
    assert float(low[0, 0]) == pytest.approx(1, abs=1e-12)
    assert float(waves[..., 0, 0].abs().max()) < 1e-15


def everywhere(layer: Scattering, x: Tensor) -> Tensor:
    """The scattering of an image that is black near its edges, at every pixel: that of all shifts of it."""
    step = 2**layer.scales
    return torch.stack([layer(x.roll(shift, (-2, -1))) for shift in itertools.product(range(step), range(step))])


@pytest.mark.parametrize("scales", [1, 2])
def test_it_makes_no_difference_larger(scales: int) -> None:
    """Nonexpansive, and of no more energy than the image (Bruna and Mallat 2013, section 2.3)."""
    layer = Scattering((40, 40), scales=scales, angles=4, oversampling=scales).double()
    one, other = image(40, 1, margin=10), image(40, 2, margin=10)
    here, there = everywhere(layer, one), everywhere(layer, other)
    assert float(here.square().sum()) <= float(one.square().sum()) * (1 + 1e-6)
    assert float(here.square().sum()) > 0.7 * float(one.square().sum())
    assert float((here - there).square().sum()) <= float((one - other).square().sum()) * (1 + 1e-6)


def test_it_grows_with_the_image() -> None:
    layer, x = Scattering((16, 16), angles=3).double(), image(16)
    torch.testing.assert_close(layer(2.5 * x), 2.5 * layer(x))
    torch.testing.assert_close(layer(-x)[:, 1:], layer(x)[:, 1:])  # moduli


def test_of_a_constant_image_only_the_average_is_left() -> None:
    layer = Scattering((16, 12), angles=3).double()
    out = layer(torch.full((1, 1, 16, 12), 0.7, dtype=torch.float64))
    torch.testing.assert_close(out[:, 0], torch.full((1, 4, 3), 0.7, dtype=torch.float64))
    assert float(out[:, 1:].abs().max()) < 1e-6


def apart(one: Tensor, other: Tensor) -> float:
    """Distance relative to size."""
    return float((one - other).norm() / one.norm())


def test_a_shift_moves_it_less_the_more_scales_it_has() -> None:
    x = image(64, margin=20) - 0.5 * (image(64, margin=20) > 0)  # mean near zero, so that all is in detail
    shifted = x.roll((1, 1), (-2, -1))
    moved = [apart(*(Scattering((64, 64), scales=j, angles=4).double()(y) for y in (x, shifted))) for j in (1, 2, 3)]
    assert apart(x, shifted) > 1
    assert moved[0] > moved[1] > moved[2]
    assert moved[2] < 0.25


def test_a_small_deformation_moves_it_little() -> None:
    """A fine wave under a window, stretched by 6 %: its pixels and its spectrum move fully, its scattering little."""

    def wave(stretch: float) -> Tensor:
        y, x = torch.meshgrid(*[torch.arange(64, dtype=torch.float64) - 32] * 2, indexing="ij")
        return (torch.cos(2.2 * stretch * x) * torch.exp(-(x**2 + y**2) / 400))[None, None]

    one, other = wave(1.0), wave(1.06)
    layer = Scattering((64, 64), scales=3, angles=4).double()
    assert apart(one, other) > 0.8
    assert apart(torch.fft.fft2(one).abs(), torch.fft.fft2(other).abs()) > 0.8
    assert apart(layer(one), layer(other)) < 0.25
    assert apart(layer(one), layer(wave(1.03))) < 0.7 * apart(layer(one), layer(other))


def test_nothing_is_trained_or_published_and_gradients_pass() -> None:
    layer = Scattering((8, 8), scales=1, angles=2)
    assert not list(layer.parameters())
    assert not layer.state_dict()
    x = image(8).float().requires_grad_()
    layer(x).sum().backward()
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


@pytest.mark.parametrize(
    ("shape", "options", "words"),
    [
        ((4, 28), {}, "too small"),
        ((28, 28), {"scales": 0}, "scales"),
        ((28, 28), {"order": 3}, "order"),
        ((28, 28), {"oversampling": 3}, "oversampling"),
        ((28, 28), {"angles": 1.5}, "angles"),
    ],
)
def test_bad_options_are_refused(shape: tuple[int, int], options: dict[str, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Scattering(shape, **options)


def test_images_of_another_size_are_refused() -> None:
    with pytest.raises(InputError, match=r"\(28, 28\)"):
        Scattering((28, 28))(torch.zeros(2, 1, 28, 27))


@pytest.mark.parametrize(("order", "paths"), [(0, 1), (1, 13), (2, 61)])
def test_paths(order: int, paths: int) -> None:
    layer = Scattering((24, 24), scales=3, angles=4, order=order)
    assert layer.paths == paths
    assert layer(torch.rand(1, 1, 24, 24)).shape == (1, paths, 3, 3)
