"""Processes of one run that do not compute the same, for `test_shared_differences`.

    torchrun --nproc-per-node 2 shared_differences.py FOLDER DIFFERENCE...

Each process writes what `shared_mistakes` writes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import blobs, linear, tiny_plan
from shared_mistakes import OTHER, main, run, training
from torch import Tensor, nn
from ways import SAMPLINGS, WAYS, scales

from discreet.certificate.declared_canaries import DeclaredCanaries
from discreet.clipping.geometry import Fixed
from discreet.data import Augmented
from discreet.plan import Plan
from discreet.randomness import TestStream
from discreet.training import EngineOptions, PublicData, Training
from discreet.training import step as step_module


class Signed(nn.Module):
    """A loss that a setting turns round."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign, self.inner = sign, nn.CrossEntropyLoss()

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return self.sign * self.inner(output, target)


def layers(middle: nn.Module) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), middle, nn.Linear(8, 3))


def another_setting_of_the_loss(folder: Path) -> None:
    run(training(folder, criterion=Signed(-1.0 if OTHER else 1.0)))


def other_weights_of_classes(folder: Path) -> None:
    run(training(folder, criterion=nn.CrossEntropyLoss(torch.tensor([1.0, 1.0, 5.0 if OTHER else 1.0]))))


class Looked(nn.Module):
    """Reads a number of a buffer by the largest feature of a row, or by its class; no random row has the last."""

    def __init__(self, inner: nn.Module, last: float) -> None:
        super().__init__()
        self.inner = inner
        self.register_buffer("numbers", torch.tensor([1.0, 1.0, 1.0, last]), persistent=False)

    def forward(self, output: Tensor, *target: Tensor) -> Tensor:
        numbers = self.get_buffer("numbers")
        if target:
            by: Tensor = numbers[3 * (output.detach().amax(1) > 1e5).long()].mean()
            return self.inner(output, *target) * by
        return self.inner(output) * numbers[3 * (output.detach().amax(1, keepdim=True) > 1e5).long()]


def another_table_of_the_model(folder: Path) -> None:
    """A buffer that is not saved, which differs where no random row reads it."""
    run(training(folder, model=Looked(linear(), 9.0 if OTHER else 1.0)))


def another_table_of_the_loss(folder: Path) -> None:
    run(training(folder, criterion=Looked(nn.CrossEntropyLoss(), 9.0 if OTHER else 1.0)))


def another_activation(folder: Path) -> None:
    run(training(folder, model=layers(nn.Tanh() if OTHER else nn.ReLU())))


def other_canaries(folder: Path) -> None:
    """The first process would declare none for all."""
    canaries = DeclaredCanaries.of(["The code is 7."], 9) if OTHER else None
    run(training(folder, public=PublicData(canaries=canaries)))


def another_slope(folder: Path) -> None:
    run(training(folder, model=layers(nn.LeakyReLU(0.9 if OTHER else 0.1))))


def other_scales(folder: Path) -> None:
    model, plan = linear(), tiny_plan(clip_norm=None, clipping=WAYS["ellipsoid"])
    run(training(folder, plan=plan, model=model, geometry=Fixed(scales(model, 7.0 if OTHER else 1.0))))


def more_views(folder: Path) -> None:
    run(training(folder, data=Augmented(blobs(), lambda rows: rows + torch.randn_like(rows), views=4 if OTHER else 1)))


def another_transform(folder: Path) -> None:
    run(training(folder, data=Augmented(blobs(), (lambda rows: -rows) if OTHER else (lambda rows: rows))))


def another_precision(folder: Path) -> None:
    run(training(folder, engine=EngineOptions("bookkeeping", autocast=torch.bfloat16 if OTHER else None)))


def another_noise(folder: Path) -> None:
    run(training(folder, noise="exact" if OTHER else "fast"))


def noise_that_anybody_can_draw(folder: Path) -> None:
    """With the whole data set in every step no draw differs, and only the first process would be asked for a proof."""
    sampling = SAMPLINGS["none"](24)
    plan = Plan.make(
        sampling,
        population=24,
        steps=3,
        clip_norm=0.7,
        delta=1e-5,
        noise_multiplier=1.5,
        adjacency=sampling.ADJACENCIES[0],
    )
    run(training(folder, plan=plan, stream=TestStream(7) if OTHER else None))


def evaluation_mode(folder: Path) -> None:
    """The first process looks at public rows, say, and forgets to go back."""
    one = training(folder, model=layers(nn.Dropout(0.9)))
    with one.session() as session:
        while session.ready():
            if OTHER:
                one.model.eval()
            with session.step() as step:
                step.add_all(one.criterion)


def autocast_of_the_loop(folder: Path) -> None:
    one = training(folder)
    with one.session() as session:
        while session.ready():
            with session.step() as step, torch.autocast("cpu", torch.bfloat16, enabled=OTHER and session.position > 1):
                step.add_all(one.criterion)


def a_hook(folder: Path) -> None:
    one = training(folder)
    if OTHER:
        one.model.register_forward_hook(lambda module, given, output: -output)
    run(one)


def other_threads(folder: Path) -> None:
    """The last bits of gradients differ: with 3 threads the sum of 64 units of 4096 features was 4e-6 clip norms apart
    from that with 1, and `exact` has no slack for it."""
    torch.set_num_threads(3 if OTHER else 1)
    run(training(folder, engine="exact"))


def other_threads_on_the_way(folder: Path) -> None:
    torch.set_num_threads(1)
    one = training(folder, engine="exact")
    torch.set_num_threads(3 if OTHER else 1)
    run(one)


def a_failure_after_the_sums(folder: Path) -> None:
    """A loop that goes on after an error which the other process does not hear of. Its next message has as many bytes
    as the share of the release for which the other one waits."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, data = nn.Linear(84, 3), (torch.randn(24, 84), torch.randint(3, (24,)))
    one, real, calls = training(folder, data=data, model=model), step_module.gaussian_release, [0]

    def fails(*given: Any) -> Any:
        calls[0] += 1
        if OTHER and calls[0] == 2:
            raise MemoryError("no room for noise")
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "gaussian_release", fails)
        _going_on(one)


def _going_on(one: Training) -> None:
    with one.session() as session:
        while session.ready():
            try:
                with session.step() as step:
                    step.add_all(one.criterion)
            except MemoryError:
                continue


def two_sessions_at_once(folder: Path) -> None:
    one, other = training(folder / "one"), training(folder / "other")
    with one.session(), other.session():
        pass


DIFFERENCES = {
    one.__name__: one
    for one in (
        another_setting_of_the_loss,
        other_weights_of_classes,
        another_table_of_the_model,
        another_table_of_the_loss,
        another_activation,
        other_canaries,
        another_slope,
        other_scales,
        more_views,
        another_transform,
        another_precision,
        another_noise,
        noise_that_anybody_can_draw,
        evaluation_mode,
        autocast_of_the_loop,
        a_hook,
        other_threads,
        other_threads_on_the_way,
        a_failure_after_the_sums,
        two_sessions_at_once,
    )
}

if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:], DIFFERENCES)
