"""Promises as checks, each used by an ordinary test and by the table of planted faults (tests/laws)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from problems import Recorded, blobs, certified_run, linear, tiny_plan, tiny_training
from scipy import stats
from torch import nn

from discreet import publish, verify
from discreet.clipping import ENGINES, Accumulator, private_parameters
from discreet.core.events import Gaussian, Poisson, tally
from discreet.core.release import ClippedSum, Receipt
from discreet.ledger import Ledger
from discreet.mechanism import gaussian_release
from discreet.randomness import TestStream
from discreet.sampling import PoissonSampler

LOSS = nn.CrossEntropyLoss()


def no_example_moves_the_sum_by_more_than_the_clip_norm(_folder: Path) -> None:
    """Removing any one example moves the clipped sum by at most C, for every engine."""
    inputs, targets = blobs(8)
    inputs[3] *= 1e6
    for engine in ENGINES.values():
        whole = engine(linear(), LOSS, inputs, targets, 0.5)
        for row in range(8):
            keep = [i for i in range(8) if i != row]
            rest = engine(linear(), LOSS, inputs[keep], targets[keep], 0.5)
            moved = torch.cat([(whole[name] - rest[name]).flatten() for name in whole]).norm()
            assert float(moved) <= 0.5 * (1 + 1e-6), "one example moved the sum by more than the clip norm"


def noise_has_the_paid_scale(_folder: Path) -> None:
    """Chi-square test on 10^5 values; false alarm 1e-9, were the seed not fixed."""
    count, multiplier, sensitivity = 100_000, 1.3, 0.7
    receipt = Receipt("run", 0, 0, Poisson(0.5, Gaussian(multiplier)))
    release = gaussian_release(ClippedSum({"w": np.zeros(count)}, sensitivity), receipt, TestStream(1))
    statistic = float(np.square(release.tensors["w"] / (multiplier * sensitivity)).sum())
    low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], count)
    assert low < statistic < high, "the noise does not have the scale that was paid for"


def one_step_is_what_the_plan_says(folder: Path) -> None:
    """A step of plain SGD moves the weights by (clipped sum + noise) / public expected batch, recomputed slowly."""
    plan = tiny_plan(population=30, batch=15)  # declared: the data has 24
    training = tiny_training(folder, plan=plan, stream=TestStream(5))
    before = {name: parameter.detach().clone() for name, parameter in training.model.named_parameters()}

    stream = TestStream(5)
    rows = torch.from_numpy(PoissonSampler(0.5).draw(0, 24, stream))
    assert 0 < len(rows) < 24
    accumulator = Accumulator(private_parameters(training.model))
    for row in rows:
        inputs, targets = (tensor[row : row + 1] for tensor in blobs())
        gradients = torch.autograd.grad(LOSS(training.model(inputs), targets), list(training.model.parameters()))
        norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        clipped = [gradient / max(1.0, float(norm)) for gradient in gradients]
        accumulator.add(dict(zip(before, clipped, strict=True)))
    receipt = Receipt("run", 0, 0, Poisson(0.5, Gaussian(1.5)))
    release = gaussian_release(accumulator.total(1.0), receipt, stream)

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
        reader = Ledger(training.run_dir / "ledger.sqlite")
        while session.steps_done < 7:
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
            assert reader.charged_steps(session.run) >= session.steps_done, "a step was taken without a charge"
        assert session.finished
    reader.close()


def the_whole_plan_is_charged(folder: Path) -> None:
    """Seven steps in blocks of three: the ledger holds all seven, with their events."""
    training = tiny_training(folder, plan=tiny_plan(noise_multiplier=[(2.0, 4), (1.0, 3)], block=3))
    trained = training.run()
    ledger = Ledger(trained.ledger)
    spent = ledger.spent(trained.run)
    ledger.close()
    assert trained.charged_steps == 7, "not every step of the plan was charged"
    assert tally(spent) == tally(trained.plan.event()), "what was charged is not the plan"


def empty_batches_release_noise_and_count(folder: Path) -> None:
    """Nobody is drawn at this rate; each step still adds noise, and counts."""
    plan = tiny_plan(population=1.0, batch=1e-9, steps=3)
    training = tiny_training(folder, plan=plan)
    with training.session() as session:
        while not session.finished:
            before = [parameter.detach().clone() for parameter in training.model.parameters()]
            with session.step() as step:
                assert list(step.chunks) == []
            after = list(training.model.parameters())
            moved = not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))
            assert moved, "an empty batch was skipped, which tells that it was empty"
        assert session.steps_done == 3
    assert training.result(session).charged_steps == 3


def published_folder(folder: Path, model: nn.Module | None = None, engine: str = "vmap") -> Path:
    """A folder published with the operating system's randomness."""
    publish(certified_run(folder, model=model, engine=engine), folder / "out")
    return folder / "out"


def a_published_folder_is_accepted(folder: Path) -> None:
    """Every check of the verifier passes."""
    failed = [check for check in verify(folder).checks if not check.passed]
    assert not failed, f"rejected by {[check.name for check in failed]}"
