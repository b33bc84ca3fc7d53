"""Whole runs over engine, sampler, noise and unit together, on tiny models: what must hold of every combination.

Each release less the noise of its address is the clipped sum of the rows that were read, recomputed here by a loop; the
noise alone has the scale that is paid for; the same key and data give the same model.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from problems import Recorded, linear, tiny_training
from scipy import stats
from step_promises import FALSE_ALARM, Twins, flat, releases_kept, silent, steps, unheard
from torch import Tensor, nn
from ways import SAMPLINGS

from discreet.clipping import ENGINES
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.mechanism import Chain, gaussian_release, grid_for, noise
from discreet.plan import (
    Plan,
)
from discreet.randomness import NOISE_SAMPLERS, RoundedSampler, Stream, TestStream
from discreet.training import Training, checklist
from discreet.training import step as step_module
from discreet.training.batch import Piece
from discreet.training.drawing import Draws

ROWS, USERS = 24, 6
WHOSE = np.arange(ROWS) % USERS
LOSS = nn.CrossEntropyLoss()

REPEATED = ("poisson", "fixed", "none", "cyclic")


@dataclass(frozen=True)
class Setup:
    """What a run is made of."""

    engine: str
    noise: str
    sampling: str
    rows_per_unit: int | None  # None: single rows are protected
    multiplier: float
    clip_norm: float
    chunk: int

    @property
    def plan(self) -> Plan:
        units = ROWS if self.rows_per_unit is None else USERS
        sampling = SAMPLINGS[self.sampling](units)
        return Plan.make(
            sampling,
            population=units,
            steps=sampling.sampler(units).period * (3 if self.sampling in REPEATED else 1),
            clip_norm=self.clip_norm,
            delta=1e-5,
            noise_multiplier=self.multiplier,
            adjacency=sampling.ADJACENCIES[0],
            unit="example" if self.rows_per_unit is None else "user",
            rows_per_unit=self.rows_per_unit or 1,
        )

    def training(self, folder: str, seed: int, **changes: Any) -> Training:
        options: dict[str, Any] = {"data": Recorded(ROWS), "model": linear()} | changes
        return tiny_training(
            Path(folder),
            plan=self.plan,
            engine=self.engine,
            noise=self.noise,
            physical_batch=self.chunk,
            stream=TestStream(seed),
            units=None if self.rows_per_unit is None else WHOSE,
            **options,
        )


SETUPS = st.builds(
    Setup,
    st.sampled_from(sorted(ENGINES)),
    st.sampled_from(sorted(NOISE_SAMPLERS)),
    st.sampled_from(sorted(SAMPLINGS)),
    st.sampled_from([None, 1, 2, 4]),
    st.floats(0.3, 30.0),
    st.sampled_from([1e-3, 0.1, 1.0, 50.0]),
    st.integers(1, ROWS),
)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten().clone() for parameter in model.parameters()])


def remixed(setup: Setup, kept: list[Release]) -> np.ndarray:
    """What the last step released: with correlated noise, optimizers get what is left without earlier steps."""
    strategy = setup.plan.sampling.strategy
    parts = zip(strategy, reversed(kept), strict=False)
    return np.sum([weight * flat(release) for weight, release in parts], axis=0)


def mixed(setup: Setup, sums: list[np.ndarray]) -> np.ndarray:
    """The sum of the last step, and with correlated noise those before it, each with its weight."""
    return np.sum([weight * one for weight, one in zip(setup.plan.sampling.strategy, reversed(sums), strict=False)], 0)


def looped(model: nn.Module, data: Recorded, read: list[int], setup: Setup) -> np.ndarray:
    """The clipped sum of the rows that were read, unit by unit, in plain arithmetic and in the order of names."""
    names = sorted(dict(model.named_parameters()))
    rows: dict[int, list[np.ndarray]] = {}
    for row in read:
        loss = LOSS(model(data.inputs[row : row + 1]), data.targets[row : row + 1])
        parts = torch.autograd.grad(loss, [model.get_parameter(name) for name in names])
        unit = row if setup.rows_per_unit is None else int(WHOSE[row])
        rows.setdefault(unit, []).append(torch.cat([part.flatten() for part in parts]).double().numpy())
    total = np.zeros(sum(parameter.numel() for parameter in model.parameters()))
    for gradients in rows.values():
        assert len(gradients) <= (setup.rows_per_unit or 1)
        mean = np.mean(gradients, axis=0)
        total += mean * (setup.clip_norm / max(setup.clip_norm, float(np.linalg.norm(mean))))
    return total


def check_releases(setup: Setup) -> list[int]:
    """Every step's release and what it does to the model; returns how many rows each step read."""
    with tempfile.TemporaryDirectory() as folder, releases_kept() as kept:
        data = Recorded(ROWS)
        training = setup.training(folder, 5, data=data)
        data.on_read = lambda _: None
        plan, model, again, sizes, sums = setup.plan, training.model, TestStream(5), [], []
        noises: list[np.ndarray] = []
        with training.session() as session:
            while session.ready():
                before = weights(model)
                data.reads.clear()
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(LOSS, chunk)
                    read = list(data.reads)
                    sums.append(looped(model, data, read, setup))
                release = kept[-1]
                draw = plan.draw_of(release.event)
                noises.append(flat(alone(setup, release, training, draw.largest_batch, again)))
                summed, slack = remixed(setup, kept) - noises[-1], training.engine.error or 0.0
                room = 4 * setup.clip_norm * len(read) * (slack + 1e-6) + noise_grid(setup, release) * 4
                room += 1e-6 * np.abs(noises[-1]).max() if len(plan.sampling.strategy) > 1 else 0.0
                room *= sum(plan.sampling.strategy)
                assert np.abs(summed - mixed(setup, sums)).max() <= room, "not the clipped sum and its noise"
                if not read and len(plan.sampling.strategy) == 1:
                    assert not summed.any(), "nobody was drawn, and yet the release is not noise alone"
                moved = torch.cat(
                    [
                        torch.from_numpy(release.tensors[name] / draw.divisor).flatten()
                        for name, _ in model.named_parameters()
                    ]
                )
                torch.testing.assert_close(weights(model), before - 0.1 * moved.float(), rtol=1e-5, atol=1e-6)
                sizes.append(len(read))
        return sizes


def noise_grid(setup: Setup, release: Release) -> float:
    return grid_for(release.receipt.release, setup.clip_norm)


def alone(setup: Setup, release: Release, training: Training, largest: int, again: Stream) -> Release:
    """The noise of the same address without the sum, at the sensitivity that DESIGN gives a sum: C, and for the fast
    engines twice the slack of every unit of the largest batch and a grid step in every coordinate."""
    grid, count = noise_grid(setup, release), flat(release).size
    sensitivity = setup.clip_norm
    if training.engine.error is not None:
        sensitivity += 2 * training.engine.error * setup.clip_norm * largest + grid * math.sqrt(count)
        sensitivity *= 1 + 2.0**-50
    sensitivity *= length(setup)
    zeros = ClippedSum({name: np.zeros(part.shape) for name, part in release.tensors.items()}, sensitivity, grid)
    return gaussian_release(zeros, release.receipt, again, NOISE_SAMPLERS[setup.noise])


def length(setup: Setup) -> float:
    """Of what one unit adds to all releases of a round, if it adds 1 to a sum."""
    return math.hypot(*setup.plan.sampling.strategy) * (1 + 2.0**-50 * (len(setup.plan.sampling.strategy) > 1))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(setup=SETUPS)
def test_every_release_is_the_clipped_sum_of_what_was_read_and_its_noise(setup: Setup) -> None:
    sizes = check_releases(setup)
    if setup.sampling == "poisson, nobody":
        assert set(sizes) == {0}
    event(f"{setup.sampling}: {'some empty' if 0 in sizes else 'none empty'}")


@settings(max_examples=6, deadline=None, derandomize=True)
@given(setup=SETUPS)
def test_the_same_key_and_data_give_the_same_model_and_another_key_another(setup: Setup) -> None:
    found = []
    for seed in (1, 1, 2):
        with tempfile.TemporaryDirectory() as folder:
            training = setup.training(folder, seed)
            training.run()
            found.append(weights(training.model))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def check_scale(setup: Setup) -> None:
    """Chi-square test of all releases of a run whose gradients are zero."""
    with tempfile.TemporaryDirectory() as folder:
        training = setup.training(folder, 3, model=Twins(), criterion=silent, data=unheard(ROWS))
        released = steps(training)
        largest = setup.plan.draw_of(released[0].event).largest_batch
        grid, count = noise_grid(setup, released[0]), flat(released[0]).size
        sensitivity = setup.clip_norm
        if training.engine.error is not None:
            sensitivity += 2 * training.engine.error * setup.clip_norm * largest + grid * math.sqrt(count)
        kept = [remixed(setup, released[: done + 1]) for done in range(len(released))]
        values = np.concatenate(kept) / (setup.multiplier * sensitivity * length(setup))
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], values.size)
    assert low < float(np.square(values).sum()) < high, "the noise has another scale than the one paid for"


@settings(max_examples=8, deadline=None, derandomize=True)
@given(setup=SETUPS)
def test_the_noise_of_every_run_has_the_scale_that_is_paid_for(setup: Setup) -> None:
    """600 values a step or more, so that a scale off by a fifth is found; 8 runs at 1e-9 each."""
    check_scale(setup)


ORDINARY = Setup("bookkeeping", "fast", "allocation", None, 1.5, 1.0, 5)


def noise_at_four_fifths(patch: pytest.MonkeyPatch) -> None:
    real = noise.noise_multiplier
    patch.setattr(noise, "noise_multiplier", lambda event: 0.8 * real(event))


def noise_for_one_step_of_a_round(patch: pytest.MonkeyPatch) -> None:
    """As if a unit's later parts of a round cost nothing."""
    real = Chain.__init__

    def short(self: Any, coefficients: Any = (1,)) -> None:
        real(self, coefficients)
        self.norm = float(coefficients[0])

    patch.setattr(Chain, "__init__", short)


def noise_left_out_for_nobody(patch: pytest.MonkeyPatch) -> None:
    real = step_module.gaussian_release

    def release(total: ClippedSum, receipt: Receipt, stream: Stream, sampler: RoundedSampler, *_: Any) -> Release:
        found = real(total, receipt, stream, sampler)
        empty = not any(part.any() for part in total.tensors.values())
        return dataclasses.replace(found, tensors={k: v * (not empty) for k, v in found.tensors.items()})

    patch.setattr(step_module, "gaussian_release", release)


def a_unit_counted_twice(patch: pytest.MonkeyPatch) -> None:
    real = Draws.next

    def twice(self: Any, receipt: Receipt) -> Any:
        pieces, drawn = real(self, receipt)
        first, *rest = pieces or [Piece(np.zeros(0, np.int64))]
        return [first._replace(rows=np.sort(np.append(first.rows, first.rows[:1]))), *rest], drawn

    patch.setattr(Draws, "next", twice)


def another_divisor(patch: pytest.MonkeyPatch) -> None:
    real = step_module.apply
    patch.setattr(step_module, "apply", lambda release, p, o, divisor: real(release, p, o, 1.1 * divisor))


@pytest.mark.parametrize(
    ("plant", "check", "setup"),
    [
        (noise_at_four_fifths, check_scale, ORDINARY),
        (noise_for_one_step_of_a_round, check_scale, dataclasses.replace(ORDINARY, sampling="cyclic")),
        (noise_for_one_step_of_a_round, check_releases, dataclasses.replace(ORDINARY, sampling="cyclic")),
        (noise_left_out_for_nobody, check_releases, dataclasses.replace(ORDINARY, sampling="poisson, nobody")),
        (a_unit_counted_twice, check_releases, ORDINARY),
        (another_divisor, check_releases, ORDINARY),
    ],
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    check: Callable[[Setup], object],
    setup: Setup,
) -> None:
    check(setup)
    monkeypatch.setattr(checklist, "with_noise", lambda preflight, *_: preflight)
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check(setup)
