"""Faults planted in the step, under every engine: each is found by a promise that the real step keeps.

| fault                                          | found by |
|------------------------------------------------|----------|
| noise added for every chunk                    | noise_is_added_once_... |
| noise added for every chunk after the first    | noise_is_added_once_... |
| noise scaled to the clip norm alone            | noise_is_added_once_... |
| noise scaled to the mean's sensitivity         | noise_is_added_once_... |
| a parameter left out, its gradient stale       | the_optimizer_reads_... |
| the release added to a stale gradient          | the_optimizer_reads_... |
| only the first parameter group released        | the_optimizer_reads_... |
| gradients left for the next step               | the_optimizer_reads_... |
| the same noise in every step                   | no_noise_comes_twice |
| the same noise for every parameter             | no_noise_comes_twice |
| the same noise in every run                    | no_noise_comes_twice |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import step_promises as promised
import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Accumulator, Clip, Engine
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.randomness import RoundedSampler, Stream, SystemStream
from discreet.randomness import stream as stream_module
from discreet.training import checklist
from discreet.training import step as step_module
from discreet.training.run import attempt as attempt_module

FOUND = "the noise is not|the optimizer read|got no release|a gradient was left|noise came twice"

Plant = Callable[[pytest.MonkeyPatch], None]
Check = Callable[[str, Path], None]


def noise_for_every_chunk(patch: pytest.MonkeyPatch) -> None:
    _with_noise(patch, lambda accumulator: True)


def noise_for_later_chunks(patch: pytest.MonkeyPatch) -> None:
    _with_noise(patch, lambda accumulator: bool(accumulator._totals))


def _with_noise(patch: pytest.MonkeyPatch, when: Callable[[Accumulator], bool]) -> None:
    real, generator = Accumulator.add, torch.Generator().manual_seed(0)

    def add(self: Accumulator, sums: Mapping[str, Tensor]) -> None:
        size = 1.3 * 0.7 if when(self) else 0.0
        noisy = {key: part.double() + size * torch.randn(part.shape, generator=generator) for key, part in sums.items()}
        real(self, {key: torch.round(part * 2.0**30) / 2.0**30 for key, part in noisy.items()})

    patch.setattr(Accumulator, "add", add)


def scaled_to(share: Callable[[float, Clip], float]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(patch: pytest.MonkeyPatch) -> None:
        real = Accumulator.total

        def total(self: Accumulator, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum:
            found = real(self, engine, clip, largest_batch)
            return dataclasses.replace(found, sensitivity=share(found.sensitivity, clip))

        patch.setattr(Accumulator, "total", total)

    return plant


def scaled_to_the_clip_norm(patch: pytest.MonkeyPatch) -> None:
    scaled_to(lambda _, clip: clip.norm)(patch)


def scaled_to_the_mean(patch: pytest.MonkeyPatch) -> None:
    scaled_to(lambda sensitivity, _: sensitivity / 24)(patch)


def _apply(give: Callable[[str, Tensor | None, Tensor], Tensor | None], clear: bool = True) -> Plant:
    """An `apply` that decides by (name, gradient found, release / divisor) what the optimizer reads."""

    def apply(release: Release, parameters: dict[str, nn.Parameter], optimizer: Any, divisor: float) -> None:
        for name, parameter in parameters.items():
            mean = torch.from_numpy(release.tensors[name] / divisor).float()
            parameter.grad = give(name, parameter.grad, mean)
        optimizer.step()
        for parameter in parameters.values():
            parameter.grad = None if clear else parameter.grad

    return lambda patch: patch.setattr(step_module, "apply", apply)


def stale_gradient_of_one_parameter(patch: pytest.MonkeyPatch) -> None:
    _apply(lambda name, found, mean: torch.ones_like(mean) if name == "second.bias" else mean)(patch)


def added_to_a_stale_gradient(patch: pytest.MonkeyPatch) -> None:
    _apply(lambda name, found, mean: mean + torch.full_like(mean, 1e-3))(patch)


def second_group_forgotten(patch: pytest.MonkeyPatch) -> None:
    _apply(lambda name, found, mean: None if name.startswith("second") else mean)(patch)


def gradients_not_cleared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step_module.Guard, "check", lambda self: None)
    _apply(lambda name, found, mean: mean, clear=False)(patch)


def same_noise_in_every_step(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stream_module, "_encode_address", lambda purpose, step: purpose.encode())


def same_noise_for_every_parameter(patch: pytest.MonkeyPatch) -> None:
    real = step_module.gaussian_release

    def release(total: ClippedSum, receipt: Receipt, stream: Stream, sampler: RoundedSampler, *_: Any) -> Release:
        found = real(total, receipt, stream, sampler)
        first = found.tensors["first.weight"]
        alike = {name: first if part.shape == first.shape else part for name, part in found.tensors.items()}
        return dataclasses.replace(found, tensors=alike)

    patch.setattr(step_module, "gaussian_release", release)


def same_noise_in_every_run(patch: pytest.MonkeyPatch) -> None:
    class Start:
        @staticmethod
        def start(key: bytes, attempt: int) -> SystemStream:
            return SystemStream._from_attempt_key(bytes(32))

    patch.setattr(attempt_module, "SystemStream", Start)


FAULTS: list[tuple[Plant, Check, bool]] = [  # the last: also of the engine `exact`
    (noise_for_every_chunk, promised.noise_is_added_once_and_scaled_to_the_sensitivity, True),
    (noise_for_later_chunks, promised.noise_is_added_once_and_scaled_to_the_sensitivity, True),
    (scaled_to_the_clip_norm, promised.noise_is_added_once_and_scaled_to_the_sensitivity, False),
    (scaled_to_the_mean, promised.noise_is_added_once_and_scaled_to_the_sensitivity, True),
    (stale_gradient_of_one_parameter, promised.the_optimizer_reads_the_release_and_nothing_else, True),
    (added_to_a_stale_gradient, promised.the_optimizer_reads_the_release_and_nothing_else, True),
    (second_group_forgotten, promised.the_optimizer_reads_the_release_and_nothing_else, True),
    (gradients_not_cleared, promised.the_optimizer_reads_the_release_and_nothing_else, True),
    (same_noise_in_every_step, promised.no_noise_comes_twice, True),
    (same_noise_for_every_parameter, promised.no_noise_comes_twice, True),
    (same_noise_in_every_run, promised.no_noise_comes_twice, True),
]


@pytest.fixture(autouse=True)
def _no_noise_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before a run would find some of the faults, and not let the step show them."""
    monkeypatch.setattr(checklist, "with_noise", lambda preflight, *_: preflight)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("check", promised.STEP_PROMISES)
def test_the_step_keeps_its_promises(check: Check, engine: str, tmp_path: Path) -> None:
    check(engine, tmp_path)


@pytest.mark.parametrize(
    ("plant", "check", "engine"),
    [
        pytest.param(plant, check, engine, id=f"{plant.__name__}-{engine}")
        for plant, check, exact in FAULTS
        for engine in ENGINES
        if exact or engine != "exact"
    ],
)
def test_a_planted_fault_is_found(
    plant: Plant, check: Check, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=FOUND):
        check(engine, tmp_path)
