"""Broken builds whose noise is not that of the plan: too little, another law, used twice."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from broken_builds import broken, patched

from discreet.core.array_types import Array
from discreet.randomness import stream as stream_module
from discreet.training import step

Change = Callable[[str, Array, Array, Any], Array]


def released(change: Change) -> contextlib.AbstractContextManager[None]:
    """A mechanism whose noise is `change(name, sum, noise, receipt)`, in the step, where no preflight check looks."""
    real = step.gaussian_release

    def release(total: Any, receipt: Any, *rest: Any) -> Any:
        sums = {name: np.array(value, np.float64) for name, value in total.tensors.items()}
        found = real(total, receipt, *rest)
        noisy = {
            name: sums[name] + change(name, sums[name], one - sums[name], receipt)
            for name, one in found.tensors.items()
        }
        return dataclasses.replace(found, tensors=noisy)

    return patched((step, "gaussian_release", release))


@broken("noise of half the scale", "noise/scale")
def noise_half() -> Any:
    return released(lambda name, total, noise, receipt: 0.5 * noise)


@broken("noise of .95 of the scale", "noise/scale")
def noise_95() -> Any:
    return released(lambda name, total, noise, receipt: 0.95 * noise)


@broken("biases without noise", "noise/scale", families=("numbers", "images", "language"))
def no_noise_on_biases() -> Any:
    return released(lambda name, total, noise, receipt: 0 * noise if "bias" in name else noise)


@broken("the last layer without noise", "noise/scale")
def no_noise_on_last_layer() -> Any:
    last = ("2.", "4.", "head.")
    return released(lambda name, total, noise, receipt: 0 * noise if name.startswith(last) else noise)


@broken("one number of a tensor without noise", "noise/")
def no_noise_on_one_number() -> Any:
    def change(name: str, total: Array, noise: Array, receipt: Any) -> Array:
        noise.flat[-1] = 0
        return noise

    return released(change)


@broken("noise for the mean: divided by the batch once more", "noise/scale")
def noise_of_the_mean() -> Any:
    return released(lambda name, total, noise, receipt: noise / 10)


@broken("noise for a clip norm of 1 that is 3", "noise/scale", clip_norm=3.0)
def noise_for_norm_one() -> Any:
    return released(lambda name, total, noise, receipt: noise / 3)


@broken("two processes each add half of the noise, where its variances add up", "noise/scale")
def noise_halved_by_processes() -> Any:
    generator = np.random.default_rng(0)

    def change(name: str, total: Array, noise: Array, receipt: Any) -> Array:
        other = generator.standard_normal(noise.shape) * 0.7  # of the other process: std 1 x clip norm .7
        return (noise + other) / 2

    return released(change)


@broken("noise clamped at two standard deviations", "noise/")
def noise_clamped() -> Any:
    return released(lambda name, total, noise, receipt: noise.clip(-1.4, 1.4))


@broken("noise of another law: Laplace's, with the variance of the plan", "noise/law")
def noise_of_laplace() -> Any:
    generator = np.random.default_rng(0)
    scale = 0.7 / np.sqrt(2)
    return released(lambda name, total, noise, receipt: generator.laplace(0, scale, noise.shape))


@broken("noise of one step in a few is large, and in the others small", "noise/")
def noise_uneven() -> Any:
    return released(lambda name, total, noise, receipt: noise * (1.9 if receipt.position % 4 == 0 else 0.37))


@broken("half of the noise is that of the step before", "noise/steps")
def noise_mixed_with_earlier() -> Any:
    kept: dict[str, Array] = {}

    def change(name: str, total: Array, noise: Array, receipt: Any) -> Array:
        before = kept.get(name)
        kept[name] = noise
        return noise if before is None or before.shape != noise.shape else (noise + before) / np.sqrt(2)

    return released(change)


@broken("one row of noise, repeated for every row of a matrix", "noise/")
def noise_broadcast() -> Any:
    def repeated(name: str, total: Array, noise: Array, receipt: Any) -> Array:
        return np.broadcast_to(noise[:1], noise.shape) if noise.ndim > 1 else noise

    return released(repeated)


@broken("the same noise in every tensor", "noise/tensors")
def noise_shared_by_tensors() -> Any:
    kept: dict[tuple[int, int], Array] = {}

    def shared(name: str, total: Array, noise: Array, receipt: Any) -> Array:
        first = kept.setdefault((id(receipt), receipt.position), np.array(noise).ravel())
        return np.resize(first, noise.shape)

    return released(shared)


def _addressed(step_of: Callable[[int], int]) -> contextlib.AbstractContextManager[None]:
    """Noise from the address of another step."""
    real = stream_module._encode_address

    def address(purpose: str, at: int) -> bytes:
        return real(purpose, step_of(at) if purpose == "noise" else at)

    return patched((stream_module, "_encode_address", address))


@broken("the same noise in every step", "noise/steps")
def noise_reused() -> Any:
    return _addressed(lambda at: 0)


@broken("every second step repeats the noise of the one before", "noise/steps")
def noise_reused_once() -> Any:
    return _addressed(lambda at: at - at % 2)


@broken("every second step repeats the noise of the one before, of biases alone", "noise/steps, tensor by tensor")
def noise_of_biases_reused_once() -> Any:
    kept: dict[str, Any] = {}

    def change(name: str, total: Any, noise: Any, receipt: Any) -> Any:
        if "bias" in name and receipt.position % 2 == 0:
            kept[name] = noise
        return kept.get(name, noise)

    return released(change)


@broken("a fixed seed: every run has the same randomness", "noise/steps")
def seed_fixed() -> Any:
    start = classmethod(lambda cls, key, attempt: cls._from_attempt_key(b"s" * 32))
    return patched((stream_module.SystemStream, "start", start))
