"""Promises about one step, for every engine, as checks that tests and planted faults share (see `promises`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import blobs, tiny_plan, tiny_training
from scipy import stats
from torch import Tensor, nn

from discreet.core.release import Release
from discreet.mechanism import grid_for
from discreet.training import Training
from discreet.training import step as step_module

FALSE_ALARM = 1e-9
"""Of every statistical check here, were its seed not fixed."""


class Twins(nn.Module):
    """Two layers of the same shape."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.first, self.second = nn.Linear(4, 60), nn.Linear(4, 60)

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) + self.second(x)


def silent(output: Tensor, target: Tensor) -> Tensor:
    """A loss whose gradient is zero on `unheard` rows, so that what is released is noise. On random rows, on which
    engines are compared before, it is not."""
    return ((target < 2) * output.sum(1)).sum()


def unheard(rows: int = 24) -> tuple[Tensor, Tensor]:
    """Blobs with other targets than random rows have, 0 and 1."""
    inputs, targets = blobs(rows)
    return inputs, targets + 2


@contextmanager
def releases_kept() -> Iterator[list[Release]]:
    """Inside, every release that reaches an optimizer is noted."""
    kept: list[Release] = []
    real = step_module.apply

    def keep(release: Release, *rest: Any) -> None:
        kept.append(release)
        real(release, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "apply", keep)
        yield kept


def steps(training: Training) -> list[Release]:
    """The releases of a whole run, in a loop of one's own."""
    with releases_kept() as kept, training.session() as session:
        while session.ready():
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(training.criterion, chunk)
    return kept


def flat(release: Release) -> np.ndarray:
    return np.concatenate([release.tensors[name].ravel() for name in sorted(release.tensors)])


def noise_is_added_once_and_scaled_to_the_sensitivity(engine: str, folder: Path) -> None:
    """Eight chunks without a gradient, with a float slack that is as large as the clip norm: chi-square test of the
    releases against multiplier x (C + slack + grid sqrt(d)), recomputed here."""
    plan = tiny_plan(batch=24, noise_multiplier=1.3, clip_norm=0.7, steps=3)
    quiet: dict[str, Any] = {"criterion": silent, "data": unheard()}
    training = tiny_training(folder, plan=plan, model=Twins(), engine=engine, physical_batch=3, **quiet)
    if engine != "exact":
        training.engine = replace(training.engine, float_bits=6)
    kept = steps(training)
    values = np.concatenate([flat(release) for release in kept])
    assert len(kept) == 3
    sensitivity = 0.7
    if engine != "exact":
        grid = grid_for(kept[0].receipt.release, 0.7)
        sensitivity += 2 * 2.0**-6 * 0.7 * plan.largest_batch + grid * math.sqrt(len(values) / 3)
        assert sensitivity > 1.5 * 0.7
    statistic = float(np.square(values / (1.3 * sensitivity)).sum())
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], len(values))
    assert low < statistic < high, "the noise is not that of one release of this sensitivity"


class Watched(torch.optim.SGD):
    """Notes what every parameter that it holds has for a gradient at a step."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.read: list[dict[int, Tensor | None]] = []

    def step(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
        held = [parameter for group in self.param_groups for parameter in group["params"]]
        self.read.append({id(one): None if one.grad is None else one.grad.clone() for one in held})
        super().step()


def the_optimizer_reads_the_release_and_nothing_else(engine: str, folder: Path) -> None:
    """In every parameter group, at every step: release / expected batch; nothing is left in `.grad`."""
    model = Twins()
    groups = [{"params": list(model.first.parameters())}, {"params": list(model.second.parameters()), "lr": 0.01}]
    optimizer = Watched(groups, lr=0.1)
    inputs, targets = blobs()
    training = tiny_training(folder, model=model, optimizer=optimizer, engine=engine, data=(inputs, targets))
    kept = steps(training)
    names = {name: id(parameter) for name, parameter in model.named_parameters()}
    assert len(kept) == len(optimizer.read) == 7
    for release, read in zip(kept, optimizer.read, strict=True):
        for name, key in names.items():
            found = read[key]
            assert found is not None, "a parameter got no release"
            wanted = torch.from_numpy(release.tensors[name] / 12.0).float()
            assert torch.equal(found, wanted), "the optimizer read something that is not the release"
    assert all(parameter.grad is None for parameter in model.parameters()), "a gradient was left for the next step"


def no_noise_comes_twice(engine: str, folder: Path) -> None:
    """The noise of two steps, two parameters, two runs and two attempts: no correlation, no value in common."""
    found: list[np.ndarray] = []
    for name in ("a", "b"):
        quiet: dict[str, Any] = {"criterion": silent, "data": unheard()}
        training = tiny_training(
            folder / name, plan=tiny_plan(steps=2), model=Twins(), engine=engine, stream=None, **quiet
        )
        for release in steps(training):
            found += [release.tensors[f"{layer}.weight"].ravel() for layer in ("first", "second")]
    limit = float(stats.norm.isf(FALSE_ALARM / 56)) / math.sqrt(len(found[0]))  # 28 pairs, two sides
    for one, other in itertools.combinations(found, 2):
        correlation = float(one @ other) / float(np.linalg.norm(one) * np.linalg.norm(other))
        assert abs(correlation) < limit, "noise came twice"


STEP_PROMISES = (
    noise_is_added_once_and_scaled_to_the_sensitivity,
    the_optimizer_reads_the_release_and_nothing_else,
    no_noise_comes_twice,
)
