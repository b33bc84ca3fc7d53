"""Promises as checks, each used by an ordinary test and by the table of planted faults (tests/laws)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import Recorded, blobs, certified_run, linear, tiny_plan, tiny_training
from scipy import stats
from torch import nn

from discreet import publish, verify
from discreet.clipping import ENGINES, Accumulator, Chunk, Clip, private_parameters
from discreet.core.events import Gaussian, Poisson, tally
from discreet.core.release import ClippedSum, Receipt
from discreet.ledger import Ledger
from discreet.mechanism import gaussian_release, grid_for
from discreet.randomness import NOISE_SAMPLERS, TestStream
from discreet.sampling import PoissonSampler, largest_batch
from discreet.training import step as step_module

LOSS = nn.CrossEntropyLoss()


def exactly(value: float) -> Fraction:
    """The number that a float64 is."""
    return Fraction(float(value))


def squared_norm(tensors: Mapping[str, Any]) -> Fraction:
    """The squared L2 norm of float64 values, in rational arithmetic."""
    flat = np.concatenate([np.asarray(tensor, np.float64).ravel() for tensor in tensors.values()])
    return sum((exactly(value) ** 2 for value in flat), Fraction(0))


def units_of(tensors: Mapping[str, Any], grid: float) -> list[int]:
    """The values as whole multiples of the grid; anything in between is a failure, except in single precision, which a
    release rounds."""
    double = [tensor if tensor.dtype != np.float32 else rounded_apart(tensor, grid) for tensor in tensors.values()]
    flat = np.concatenate([np.asarray(tensor, np.float64).ravel() for tensor in double])
    multiples = [exactly(value) / exactly(grid) for value in flat]
    assert all(multiple.denominator == 1 for multiple in multiples), "a value is not on the grid"
    return [int(multiple) for multiple in multiples]


def rounded_apart(tensor: Any, grid: float) -> np.ndarray:
    """The values rounded to the grid, by NumPy."""
    found: np.ndarray = np.rint(np.asarray(tensor, np.float64) / grid) * grid
    return found


def without(rows: int, row: int) -> list[int]:
    return [i for i in range(rows) if i != row]


def no_example_moves_the_sum_by_more_than_the_clip_norm(_folder: Path) -> None:
    """Removing any one example moves the clipped sum by at most C, for every engine."""
    inputs, targets = blobs(8)
    inputs[3] *= 1e6
    clip = Clip(0.5, 2.0**-30)
    for engine in ENGINES.values():
        whole = engine.clipped_sum(linear(), LOSS, Chunk(inputs, targets), clip)
        for row in range(8):
            keep = without(8, row)
            rest = engine.clipped_sum(linear(), LOSS, Chunk(inputs[keep], targets[keep]), clip)
            moved = torch.cat([(whole[name] - rest[name]).flatten() for name in whole]).norm()
            assert float(moved) <= 0.5 * (1 + 1e-6), "one example moved the sum by more than the clip norm"


def exact_sums_are_whole_numbers_that_no_example_moves_by_more_than_the_clip_norm(_folder: Path) -> None:
    """Engine `exact`, in integers: the sum without an example, and how far it moves, at a fine and a coarse grid."""
    inputs, targets = blobs(8)
    inputs[3] *= 1e6
    for grid in (2.0**-30, 2.0**-4):
        clip = Clip(0.5, grid)

        def summed(rows: list[int], clip: Clip = clip) -> list[int]:
            sums = ENGINES["exact"].clipped_sum(linear(), LOSS, Chunk(inputs[rows], targets[rows]), clip)
            return units_of(sums, clip.grid)

        whole, most = summed(list(range(8))), (exactly(clip.norm) / exactly(grid)) ** 2
        for row in range(8):
            alone, rest = summed([row]), summed(without(8, row))
            assert [one + other for one, other in zip(alone, rest, strict=True)] == whole, "the sum was rounded"
            moved = sum(unit**2 for unit in alone)
            assert moved <= most, "one example moved the sum by more than the clip norm"


def the_sensitivity_covers_rounding(_folder: Path) -> None:
    """Two sums exactly C apart whose rounding moves 400 coordinates the same way, in rational arithmetic."""
    clip, count = Clip(1.0, 2.0**-6), 400
    sums = [torch.full((count,), 0.49 * clip.grid + moved, dtype=torch.float64) for moved in (0.0, 0.05 * (1 - 1e-15))]
    apart = squared_norm({"w": (sums[1] - sums[0]).numpy()})
    assert apart <= exactly(clip.norm) ** 2
    totals = []
    for one in sums:
        accumulator = Accumulator({"w": torch.zeros(count)})
        accumulator.add({"w": one})
        totals.append(accumulator.total(ENGINES["vmap"], clip, largest_batch=1))
    units = [units_of(total.tensors, clip.grid) for total in totals]
    moved = sum((a - b) ** 2 for a, b in zip(*units, strict=True)) * exactly(clip.grid) ** 2
    assert moved > exactly(clip.norm) ** 2  # rounding did it, and the sensitivity must say so
    assert moved <= exactly(totals[0].sensitivity) ** 2, "rounding to the grid moves the sum further than is paid for"


def the_sensitivity_covers_chunks(_folder: Path) -> None:
    """Every example of the largest batch may be off by `error` in both neighbours; rounded up, in rationals."""
    engine, clip, batch, count = ENGINES["vmap"], Clip(0.7, 2.0**-30), 1000, 5
    total = Accumulator({"w": torch.zeros(count)}).total(engine, clip, batch)
    assert engine.error is not None
    least = exactly(clip.norm) * (1 + 2 * exactly(engine.error) * batch)
    least += exactly(clip.grid) * Fraction(math.isqrt(count * 2**80), 2**40)
    assert exactly(total.sensitivity) >= least, "the sensitivity leaves out what chunks may do"


def the_sum_is_rounded_once(_folder: Path) -> None:
    """Twenty-four chunks of 0.4 grid steps are 9.6 of them, not 0: rounding must not grow with the chunks."""
    clip = Clip(1.0, 2.0**-10)
    accumulator = Accumulator({"w": torch.zeros(3)})
    for _ in range(24):
        accumulator.add({"w": torch.full((3,), 0.4 * clip.grid, dtype=torch.float64)})
    units = units_of(accumulator.total(ENGINES["vmap"], clip, largest_batch=24).tensors, clip.grid)
    assert units == [10, 10, 10], "every chunk was rounded for itself"


def releases_are_on_the_grid(folder: Path) -> None:
    """Every value that reaches the optimizer is a whole multiple of the public grid, for every engine and sampler."""
    plan = tiny_plan(noise_multiplier=[(1.5, 4), (0.7, 3)])
    for engine in ENGINES:
        for noise in NOISE_SAMPLERS:
            releases: list[Any] = []
            real = step_module.apply

            def keep(release: Any, *rest: Any, real: Any = real, releases: list[Any] = releases) -> None:
                releases.append(release)
                real(release, *rest)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(step_module, "apply", keep)
                tiny_training(folder / engine / noise, plan=plan, engine=engine, noise=noise).run()
            assert len(releases) == 7
            for release in releases:
                units_of(release.tensors, grid_for(release.receipt.release, plan.clipping.norm))


def noise_has_the_paid_scale(_folder: Path) -> None:
    """Chi-square test on 10^5 values; false alarm 1e-9, were the seed not fixed."""
    count, multiplier, sensitivity = 100_000, 1.3, 0.7
    receipt = Receipt("run", 0, 0, Poisson(0.5, Gaussian(multiplier)))
    total = ClippedSum({"w": np.zeros(count)}, sensitivity, grid_for(receipt.release, sensitivity))
    release = gaussian_release(total, receipt, TestStream(1), NOISE_SAMPLERS["fast"])
    statistic = float(np.square(release.tensors["w"] / (multiplier * sensitivity)).sum())
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], count)
    assert low < statistic < high, "the noise does not have the scale that was paid for"


def one_step_is_what_the_plan_says(folder: Path) -> None:
    """A step of plain SGD moves the weights by (clipped sum + noise) / public expected batch, recomputed slowly."""
    plan = tiny_plan(population=30, batch=15)  # declared: the data has 24
    training = tiny_training(folder, plan=plan, stream=TestStream(5))
    before = {name: parameter.detach().clone() for name, parameter in training.model.named_parameters()}

    stream = TestStream(5)
    rows = torch.from_numpy(PoissonSampler(0.5).batches(0, 24, stream)[0])
    assert 0 < len(rows) < 24
    accumulator = Accumulator(private_parameters(training.model))
    for row in rows:
        inputs, targets = (tensor[row : row + 1] for tensor in blobs())
        gradients = torch.autograd.grad(LOSS(training.model(inputs), targets), list(training.model.parameters()))
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        clipped = [gradient / max(1.0, float(norm)) for gradient in gradients]
        accumulator.add(dict(zip(before, clipped, strict=True)))
    receipt = Receipt("run", 0, 0, Poisson(0.5, Gaussian(1.5)))
    clip = Clip(1.0, grid_for(receipt.release, 1.0))
    total = accumulator.total(ENGINES["vmap"], clip, largest_batch(0.5, 30))
    release = gaussian_release(total, receipt, stream, NOISE_SAMPLERS["fast"])

    with training.session() as session, session.step() as step:
        for chunk in step.chunks:
            step.add(LOSS, chunk)
    for name, parameter in training.model.named_parameters():
        expected = before[name] - 0.1 * torch.from_numpy(release.tensors[name] / 15.0).float()
        assert torch.allclose(parameter, expected, rtol=1e-5, atol=1e-6), "the step is not the one of the plan"


def draws_do_not_depend_on_the_length(folder: Path) -> None:
    """Under add/remove, one example more leaves the draws of the others as they were."""
    reads = []
    for rows in (30, 24):
        data = Recorded(rows)
        training = tiny_training(folder / str(rows), data=data, plan=tiny_plan(population=30, batch=12))
        data.on_read = lambda _index: None
        training.run()
        reads.append([index for index in data.reads if index < 24])
    assert reads[0] == reads[1], "who is drawn depends on the private length of the data"


def draws_differ_between_steps(folder: Path) -> None:
    """No two of twelve steps draw the same batch out of 200 at rate 1/2 (by chance: 1e-58)."""
    data = Recorded(200)
    plan = tiny_plan(population=200, batch=100, steps=12)
    training = tiny_training(folder, data=data, plan=plan)
    data.on_read = lambda _index: None
    batches = []
    with training.session() as session:
        while not session.finished:
            data.reads.clear()
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
            batches.append(tuple(data.reads))
    assert len(set(batches)) == 12, "a batch was drawn again"


def every_step_is_charged(folder: Path) -> None:
    """After each step, another reader of the ledger sees at least as many charges as steps."""
    training = tiny_training(folder, plan=tiny_plan(block=1))
    reader = None
    with training.session() as session:
        reader = Ledger(training.folder.ledger)
        while session.position < 7:
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
            assert reader.charged_steps(session.run) >= session.position, "a step was taken without a charge"
        assert session.finished
    reader.close()


def the_whole_plan_is_charged(folder: Path) -> None:
    """Seven steps in blocks of three: the ledger holds all seven, with their events."""
    training = tiny_training(folder, plan=tiny_plan(noise_multiplier=[(2.0, 4), (1.0, 3)], block=3))
    with training.session() as session:
        while not session.finished:
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
    ledger = Ledger(training.folder.ledger)
    spent, entries = ledger.spent(session.run), tuple(ledger.entries(session.run))
    assert ledger.charged_steps(session.run) == 7, "not every step of the plan was charged"
    ledger.close()
    trained = training.result(session)
    assert trained.entries == entries
    assert trained.charged_steps == 7, "not every step of the plan was charged"
    assert tally(spent) == tally(trained.plan.event()), "what was charged is not the plan"


def empty_batches_release_noise_and_count(folder: Path) -> None:
    """Nobody is drawn at this rate; each step still adds noise, and counts."""
    plan = tiny_plan(population=24, batch=1e-9, steps=3)
    training = tiny_training(folder, plan=plan)
    with training.session() as session:
        while not session.finished:
            before = [parameter.detach().clone() for parameter in training.model.parameters()]
            with session.step() as step:
                assert list(step.chunks) == []
            after = list(training.model.parameters())
            moved = not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))
            assert moved, "an empty batch was skipped, which tells that it was empty"
        assert session.position == 3
    assert training.result(session).charged_steps == 3


def published_folder(folder: Path, model: nn.Module | None = None, engine: str = "vmap") -> Path:
    """A folder published with the operating system's randomness."""
    publish(certified_run(folder, model=model, engine=engine), folder / "out")
    return folder / "out"


def a_published_folder_is_accepted(folder: Path) -> None:
    """Every check of the verifier passes."""
    failed = [check for check in verify(folder).checks if not check.passed]
    assert not failed, f"rejected by {[check.name for check in failed]}"
