"""Each promise is checked by a function that passes on the real code and fails when the fault is planted.

| fault                                         | found by |
|-----------------------------------------------|----------|
| gradients are not clipped                     | no_example_moves_the_sum_..., one_step_is_... |
| noise at 0.9 of what was paid                 | noise_has_the_paid_scale, one_step_is_... |
| divided by the realised batch                 | one_step_is_what_the_plan_says |
| rate taken from the length of the data        | draws_do_not_depend_on_the_length |
| one step not charged                          | every_step_is_charged |
| the last partial block not charged            | the_whole_plan_is_charged |
| the same Poisson draws in every epoch         | draws_differ_between_steps |
| an empty batch skipped                        | empty_batches_release_noise_and_count |
| the engine `exact` does not cut to the grid   | exact_sums_are_whole_numbers_... |
| the engine `exact` rounds to the nearest      | exact_sums_are_whole_numbers_... |
| the grid left out of the sensitivity          | the_sensitivity_covers_rounding |
| the chunks left out of the sensitivity        | the_sensitivity_covers_chunks |
| every chunk rounded for itself                | the_sum_is_rounded_once |
| noise that is not on the grid                 | releases_are_on_the_grid |
| a sum that is not on the grid                 | (the mechanism refuses it) |
| a byte of the model flipped                   | a_published_folder_is_accepted |
| epsilon lowered in the certificate            | a_published_folder_is_accepted |
| a running buffer, the trainer's check cut out | a_published_folder_is_accepted |
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import promises
import pytest
import torch
from problems import RunningMean, tiny_training

from discreet.clipping import Accumulator, Clip, Engine, Findings
from discreet.clipping.engines import engine as engines
from discreet.core.errors import PrivacyViolation
from discreet.core.events import Event
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.ledger import Ledger
from discreet.mechanism import noise
from discreet.publication import publishing as folder_module
from discreet.randomness import NOISE_SAMPLERS, Purpose, RoundedSampler, Stream, normals
from discreet.sampling import PoissonSampler
from discreet.training import guard as guard_module
from discreet.training import step as step_module
from discreet.training import training as training_module
from discreet.training.charged import Charged
from discreet.training.preflight import engine_comparison

Plant = Callable[[pytest.MonkeyPatch], None]
Check = Callable[[Path], None]


def clip_skipped(patch: pytest.MonkeyPatch) -> None:
    def as_they_are(gradients: Mapping[str, torch.Tensor], _clip_norm: float) -> dict[str, torch.Tensor]:
        return {name: gradient.double() for name, gradient in gradients.items()}

    def plain_sum(gradients: Mapping[str, torch.Tensor], _clip_norm: float) -> dict[str, torch.Tensor]:
        return {name: gradient.double().sum(0) for name, gradient in gradients.items()}

    patch.setattr(engines, "clipped", as_they_are)
    for module in (engines, engine_comparison):
        patch.setattr(module, "clipped_sum", plain_sum)


def not_cut_to_the_grid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch, "trunc", lambda units: units)


def rounded_to_the_nearest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(torch, "trunc", torch.round)


def sensitivity_without(part: str) -> Plant:
    """The accumulator forgets the rounding to the grid, or what chunks may do."""
    real = Accumulator.total

    def total(self: Accumulator, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum:
        if part == "chunks":
            return real(self, engine, clip, 0)
        found = real(self, engine, clip, largest_batch)
        return dataclasses.replace(found, sensitivity=clip.norm * (1 + 2 * (engine.error or 0) * largest_batch))

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Accumulator, "total", total)

    plant.__name__ = f"sensitivity_without_{part}"
    return plant


def every_chunk_rounded(patch: pytest.MonkeyPatch) -> None:
    real, grid = Accumulator.add, 2.0**-10

    def add(self: Accumulator, sums: Mapping[str, torch.Tensor]) -> None:
        real(self, {name: torch.round(tensor / grid) * grid for name, tensor in sums.items()})

    patch.setattr(Accumulator, "add", add)


def noise_off_the_grid(patch: pytest.MonkeyPatch) -> None:
    real = step_module.gaussian_release

    def floating(total: ClippedSum, receipt: Receipt, stream: Stream, sampler: RoundedSampler, *_: Any) -> Release:
        release = real(total, receipt, stream, sampler)
        substream = stream.substream(Purpose.SAMPLING, 10**6 + receipt.position)
        tensors = {
            name: tensor + normals(substream, tensor.size).reshape(tensor.shape)
            for name, tensor in release.tensors.items()
        }
        return dataclasses.replace(release, tensors=tensors)

    patch.setattr(step_module, "gaussian_release", floating)


def noise_too_small(patch: pytest.MonkeyPatch) -> None:
    real = noise.noise_multiplier
    patch.setattr(noise, "noise_multiplier", lambda event: 0.9 * real(event))


def noise_too_small_in_the_sampler(patch: pytest.MonkeyPatch) -> None:
    fast = NOISE_SAMPLERS["fast"]
    weaker = dataclasses.replace(fast, draw=lambda substream, n, scale: fast.draw(substream, n, int(0.9 * scale)))
    patch.setattr(promises, "NOISE_SAMPLERS", {"fast": weaker})


def noise_too_small_in_the_step(patch: pytest.MonkeyPatch) -> None:
    real = step_module.gaussian_release

    def weaker(total: ClippedSum, receipt: Receipt, stream: Stream, sampler: RoundedSampler, *_: Any) -> Release:
        release = real(total, receipt, stream, sampler)
        tensors = {name: total.tensors[name] + 0.9 * (t - total.tensors[name]) for name, t in release.tensors.items()}
        return dataclasses.replace(release, tensors=tensors)

    patch.setattr(step_module, "gaussian_release", weaker)


def divided_by_the_realised_batch(patch: pytest.MonkeyPatch) -> None:
    real_draw, real_apply = PoissonSampler.batches, step_module.apply
    drawn: list[int] = []

    def batches(self: PoissonSampler, step: int, size: int, stream: Stream) -> Any:
        (rows,) = real_draw(self, step, size, stream)
        drawn.append(len(rows))
        return (rows,)

    def apply(release: Release, parameters: Any, optimizer: Any, _divisor: float) -> None:
        real_apply(release, parameters, optimizer, max(1, drawn[-1]))

    patch.setattr(PoissonSampler, "batches", batches)
    patch.setattr(step_module, "apply", apply)


def rate_from_the_length(patch: pytest.MonkeyPatch) -> None:
    real = PoissonSampler.batches

    def batches(_self: PoissonSampler, step: int, size: int, stream: Stream) -> Any:
        return real(PoissonSampler(12 / size), step, size, stream)

    patch.setattr(PoissonSampler, "batches", batches)


def one_step_not_charged(patch: pytest.MonkeyPatch) -> None:
    real = Charged.next

    def next_receipt(self: Any) -> Receipt:
        if self.position == 3:
            paid = real(self)
            self._receipts.append(
                dataclasses.replace(paid, position=paid.position + 1)
            )  # a receipt that nobody paid for
            return paid
        return real(self)

    patch.setattr(Charged, "next", next_receipt)


def partial_block_not_charged(patch: pytest.MonkeyPatch) -> None:
    real = Ledger.reserve

    def reserve(self: Ledger, run: str, attempt: int, admission: Callable[[int], Sequence[Event]]) -> Any:
        position = self.charged_steps(run)
        events = admission(position)
        if len(events) < 3:
            return tuple(Receipt(run, attempt, position + i, one) for i, one in enumerate(events))
        return real(self, run, attempt, admission)

    patch.setattr(Ledger, "reserve", reserve)


def the_same_epoch_again(patch: pytest.MonkeyPatch) -> None:
    real = PoissonSampler.batches
    seen: dict[int, Any] = {}

    def batches(self: PoissonSampler, step: int, size: int, stream: Stream) -> Any:
        if step % 4 not in seen:
            seen[step % 4] = real(self, step, size, stream)
        return seen[step % 4]

    patch.setattr(PoissonSampler, "batches", batches)


def empty_batch_skipped(patch: pytest.MonkeyPatch) -> None:
    real_release, real_apply = step_module.gaussian_release, step_module.apply
    empty: list[bool] = []

    def release(total: ClippedSum, receipt: Receipt, stream: Stream, sampler: RoundedSampler, *_: Any) -> Release:
        empty.append(not any(tensor.any() for tensor in total.tensors.values()))
        return real_release(total, receipt, stream, sampler)

    def apply(release: Release, parameters: Any, optimizer: Any, divisor: float) -> None:
        if not empty[-1]:
            real_apply(release, parameters, optimizer, divisor)

    patch.setattr(step_module, "gaussian_release", release)
    patch.setattr(step_module, "apply", apply)


FAULTS: list[tuple[Plant, Check]] = [
    (clip_skipped, promises.no_example_moves_the_sum_by_more_than_the_clip_norm),
    (clip_skipped, promises.one_step_is_what_the_plan_says),
    (clip_skipped, promises.exact_sums_are_whole_numbers_that_no_example_moves_by_more_than_the_clip_norm),
    (not_cut_to_the_grid, promises.exact_sums_are_whole_numbers_that_no_example_moves_by_more_than_the_clip_norm),
    (rounded_to_the_nearest, promises.exact_sums_are_whole_numbers_that_no_example_moves_by_more_than_the_clip_norm),
    (sensitivity_without("grid"), promises.the_sensitivity_covers_rounding),
    (sensitivity_without("chunks"), promises.the_sensitivity_covers_chunks),
    (every_chunk_rounded, promises.the_sum_is_rounded_once),
    (noise_off_the_grid, promises.releases_are_on_the_grid),
    (noise_too_small, promises.noise_has_the_paid_scale),
    (noise_too_small_in_the_sampler, promises.noise_has_the_paid_scale),
    (noise_too_small_in_the_step, promises.one_step_is_what_the_plan_says),
    (divided_by_the_realised_batch, promises.one_step_is_what_the_plan_says),
    (rate_from_the_length, promises.draws_do_not_depend_on_the_length),
    (one_step_not_charged, promises.every_step_is_charged),
    (partial_block_not_charged, promises.the_whole_plan_is_charged),
    (the_same_epoch_again, promises.draws_differ_between_steps),
    (empty_batch_skipped, promises.empty_batches_release_noise_and_count),
]


@pytest.mark.parametrize(
    ("plant", "check"), FAULTS, ids=[f"{plant.__name__}-{check.__name__}" for plant, check in FAULTS]
)
def test_a_planted_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant, check: Check) -> None:
    check(tmp_path / "real")
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(tmp_path / "planted")


def test_a_sum_that_was_not_rounded_is_refused_by_the_mechanism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Accumulator.total

    def total(self: Accumulator, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum:
        found = real(self, engine, clip, largest_batch)
        return dataclasses.replace(
            found, tensors={key: value.astype(float) + clip.grid / 3 for key, value in found.tensors.items()}
        )

    monkeypatch.setattr(Accumulator, "total", total)
    training = tiny_training(tmp_path)
    before = [parameter.detach().clone() for parameter in training.model.parameters()]
    with pytest.raises(PrivacyViolation, match="not on its grid"):
        training.run()
    assert all(torch.equal(one, two) for one, two in zip(before, training.model.parameters(), strict=True))


def flip_a_byte(folder: Path) -> None:
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-1] ^= 0x80
    (folder / "model.safetensors").write_bytes(content)


def lower_epsilon(folder: Path) -> None:
    facts = json.loads((folder / "certificate.json").read_text())
    facts["claim"]["epsilon"] *= 0.98
    (folder / "certificate.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(("tamper", "by"), [(flip_a_byte, "model"), (lower_epsilon, "epsilon")])
def test_a_tampered_folder_is_found(tmp_path: Path, tamper: Callable[[Path], None], by: str) -> None:
    folder = promises.published_folder(tmp_path)
    promises.a_published_folder_is_accepted(folder)
    tamper(folder)
    with pytest.raises(AssertionError, match=f"rejected by .*'{by}'"):
        promises.a_published_folder_is_accepted(folder)


def test_a_leaking_buffer_is_found_by_the_verifier_when_the_trainer_does_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (training_module, guard_module, folder_module):
        monkeypatch.setattr(module, "check_unchanged", lambda *_: None)
    monkeypatch.setattr("discreet.training.public.public_copy.check_unchanged", lambda *_: None)
    monkeypatch.setattr("discreet.training.preflight.model_check.tried", lambda *_: Findings())
    monkeypatch.setattr("discreet.training.preflight.engine_check.check_loss", lambda *_: None)
    promises.a_published_folder_is_accepted(
        promises.published_folder(tmp_path / "1", RunningMean(), engine="reference")
    )
    for module in ("clipping.separation.copies", "training.public.public_copy"):  # publish what saw private rows
        monkeypatch.setattr(f"discreet.{module}.copied", lambda *parts, own=False: parts)
    folder = promises.published_folder(tmp_path / "2", RunningMean(), engine="reference")
    with pytest.raises(AssertionError, match=r"rejected by \['public tensors'\]"):
        promises.a_published_folder_is_accepted(folder)
