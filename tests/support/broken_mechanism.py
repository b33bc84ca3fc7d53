"""Broken builds in the way from a sum to the optimizer: steps without a release, divisors, what else is let through."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
from broken_builds import broken, patched
from broken_noise import released

from discreet.clipping import Accumulator
from discreet.core.array_types import Array
from discreet.sampling import CyclicPoissonSampling, PoissonSampler
from discreet.training import step
from discreet.training.drawing import Draws
from discreet.training.guard import Guard


@broken("noise is added by each of two processes, in full", "noise/scale", notice=True)
def noise_twice() -> Any:
    return released(lambda name, total, noise, receipt: np.sqrt(2) * noise)


@broken("no noise where a batch has several chunks", "noise/scale", chunk=7)
def noise_lost_by_chunks() -> Iterator[None]:
    real, count = Accumulator.add, [0]

    def add(self: Any, sums: Any) -> None:
        count[0] += 1
        real(self, sums)

    def change(name: str, total: Array, noise: Array, receipt: Any) -> Array:
        return 0 * noise if count[0] > 1 else noise

    with patched((Accumulator, "add", add)), released(change):
        inner = step.gaussian_release

        def counted(*given: Any) -> Any:
            found = inner(*given)
            count[0] = 0
            return found

        with patched((step, "gaussian_release", counted)):
            yield


@broken("a step without rows is skipped: no noise", "replay/nearly empty")
def empty_skipped() -> Any:
    real_release, real_apply, empty = step.gaussian_release, step.apply, [False]

    def release(total: Any, *rest: Any) -> Any:
        empty[0] = not any(np.any(one) for one in total.tensors.values())
        return real_release(total, *rest)

    def apply(*given: Any) -> None:
        if not empty[0]:
            real_apply(*given)

    return patched((step, "gaussian_release", release), (step, "apply", apply))


@broken("an empty step releases its exact zeros", "noise/")
def empty_without_noise() -> Any:
    return released(lambda name, total, noise, receipt: noise if np.any(total) else 0 * noise)


@broken("the mean is clipped, not each example", "replay/")
def clip_the_mean() -> Any:
    from broken_sums import unclipped

    real = step.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        length = np.sqrt(sum(float(np.square(one, dtype=np.float64).sum()) for one in total.tensors.values()))
        share = min(1.0, 12 * total.sensitivity / max(length, 1e-30))
        tensors = {
            name: np.round(np.asarray(one, np.float64) * share / total.grid) * total.grid
            for name, one in total.tensors.items()
        }
        return real(dataclasses.replace(total, tensors=tensors), *rest)

    return _both(unclipped(), patched((step, "gaussian_release", release)))


def _both(*contexts: Any) -> Any:
    from contextlib import ExitStack

    stack = ExitStack()
    for one in contexts:
        stack.enter_context(one)
    return stack


@broken("a twentieth of the sum is added to the release once more", "replay/")
def raw_sum_leaks() -> Any:
    return released(lambda name, total, noise, receipt: noise + 0.05 * total)


@broken("the largest number of a sum is released without noise", "replay/")
def largest_number_leaks() -> Any:
    """As a log of gradient norms would; here in the place of a number of the release."""

    def change(name: str, total: Array, noise: Array, receipt: Any) -> Array:
        noise.flat[0] += 100 * np.abs(total).max()
        return noise

    return released(change)


@broken("divided by the batch that was drawn", "replay/")
def divided_by_the_batch() -> Any:
    real_pieces, real_apply, size = Draws._pieces, step.apply, [1]

    def pieces(self: Any, drawn: Any, position: int) -> Any:
        size[0] = max(1, len(drawn))
        return real_pieces(self, drawn, position)

    def apply(release: Any, parameters: Any, optimizer: Any, divisor: float, *rest: Any) -> None:
        real_apply(release, parameters, optimizer, size[0], *rest)

    return patched((Draws, "_pieces", pieces), (step, "apply", apply))


@broken("divided by the whole part of rate x rows, which one row changes", "replay/")
def divisor_from_length() -> Any:
    real_draw, real_apply, size = PoissonSampler.batches, step.apply, [0]

    def batches(self: Any, first: int, count: int, stream: Any) -> Any:
        size[0] = max(1, int(self.rate * count))
        return real_draw(self, first, count, stream)

    def apply(release: Any, parameters: Any, optimizer: Any, divisor: float, *rest: Any) -> None:
        real_apply(release, parameters, optimizer, size[0] if divisor > 1e-3 else divisor, *rest)

    return patched((PoissonSampler, "batches", batches), (step, "apply", apply))


@broken("the running sum of all inputs is kept in the model, and published", "replay/")
def statistics_kept() -> Any:
    real = step.apply

    def apply(release: Any, parameters: Any, optimizer: Any, *rest: Any) -> None:
        real(release, parameters, optimizer, *rest)
        if kept:
            next(iter(parameters.values())).data.flatten()[0] += 1e-3 * kept.pop()

    kept: list[float] = []
    real_release = step.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        kept.append(float(np.abs(next(iter(total.tensors.values()))).sum()))
        return real_release(total, *rest)

    nothing = lambda self, *_: None  # noqa: E731
    return patched(
        (step, "apply", apply),
        (step, "gaussian_release", release),
        (Guard, "check", nothing),
        (Guard, "check_values", nothing),
    )


@broken(
    "correlated noise, with the sensitivity of independent noise",
    "noise/scale",
    sampling=CyclicPoissonSampling(rate=0.5, coefficients=(3, 2)),
)
def bands_without_growth() -> Any:
    real = step.gaussian_release

    def release(total: Any, *rest: Any) -> Any:
        return real(dataclasses.replace(total, sensitivity=total.sensitivity / np.sqrt(13)), *rest)

    return patched((step, "gaussian_release", release))
