"""What every method of training keeps to, whatever it does with releases: all engines and chunkings train alike, a run
that goes on has what was learned, and neither a NaN nor an empty batch stops it.

A method is entered in `METHODS` by what it gives to plan and training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import CLASSES, FEATURES, blobs, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import publish, verify
from discreet.methods import DPAdamBC, TrainingMethod, adaclip, adadp, adan, dpopt
from discreet.training import Training


@dataclass(frozen=True)
class Entry:
    """What a method changes of a tiny plan, and what it gives to `Training`."""

    optimizer: torch.optim.Optimizer
    plan: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)


def entry(method: TrainingMethod) -> Entry:
    plan: dict[str, Any] = {"clip_norm": None, "clipping": method.clipping}
    return Entry(method.optimizer, plan, {"geometry": method.geometry})


METHODS: dict[str, Callable[[nn.Module], Entry]] = {
    "sgd": lambda model: Entry(torch.optim.SGD(model.parameters(), lr=0.1)),
    "adam_bc": lambda model: Entry(DPAdamBC(model.parameters(), lr=0.05, floor=1e-2)),
    "adadp": lambda model: entry(adadp(model, 0.05, clip_norm=1.0)),
    "adadp in a box": lambda model: entry(adadp(model, 0.05, clip_norm=1.0, kind="box")),
    "adan": lambda model: entry(adan(model, clip_norm=1.0)),
    "dpopt": lambda model: entry(dpopt(model, clip_norm=1.0)),
    "adaclip": lambda model: entry(adaclip(model, clip_norm=1.0)),
}

LOSS = nn.CrossEntropyLoss()


class Relative(nn.Module):
    """Features relative to their sum: not a number for a row of zeros."""

    def forward(self, x: Tensor) -> Tensor:
        return x / x.abs().sum(1, keepdim=True)


def network() -> nn.Module:
    """Two layers, so that several parameters are clipped together."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(Relative(), nn.Linear(FEATURES, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def training_of(name: str, folder: Path, *, plan: dict[str, Any] | None = None, **changes: Any) -> Training:
    model = network()
    made = METHODS[name](model)
    options = made.training | changes
    return tiny_training(
        folder, plan=tiny_plan(**(made.plan | (plan or {}))), model=model, optimizer=made.optimizer, **options
    )


def weights(training: Training) -> Tensor:
    return torch.cat([one.detach().flatten() for one in training.model.parameters()])


def trained(training: Training) -> Tensor:
    assert training.run(progress=False).charged_steps == training.plan.charges
    return weights(training)


@pytest.mark.parametrize("name", METHODS)
def test_engines_and_chunks_train_alike(name: str, tmp_path: Path) -> None:
    """The same stream, so the same batches and, but for slack in its scale, the same noise. Scales and rates amplify
    what is rounded, so a hundredth of how far the weights went is allowed; a chunk or an engine that was left out moves
    them by much more."""
    start = torch.cat([one.detach().flatten() for one in network().parameters()])
    runs = {
        "bookkeeping": trained(training_of(name, tmp_path / "a", engine="bookkeeping")),
        "ghost, in chunks": trained(training_of(name, tmp_path / "c", engine="ghost", physical_batch=5)),
        "vmap": trained(training_of(name, tmp_path / "d", engine="vmap")),
        "exact": trained(training_of(name, tmp_path / "e", engine="exact")),
    }
    went = float((runs["bookkeeping"] - start).norm())
    assert went > 0.05
    for other in runs.values():
        assert float((other - runs["bookkeeping"]).norm()) <= 0.01 * went


@pytest.mark.parametrize("name", METHODS)
def test_a_run_goes_on_with_what_was_learned(name: str, tmp_path: Path) -> None:
    """After a checkpoint, model, optimizer and scales of a new process are those of the old one."""
    first = training_of(name, tmp_path)
    with first.session() as session:
        while session.position < 3:
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
        first.save(session)
    again = training_of(name, tmp_path, resume=True)
    with again.session() as session:
        assert session.position == 3
        assert torch.equal(weights(first), weights(again))
        for one, other in zip(states(first), states(again), strict=True):
            assert torch.equal(one, other)
        while not session.finished:
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
    assert bool(torch.isfinite(weights(again)).all())


def states(training: Training) -> list[Tensor]:
    """All tensors that optimizer and clipping remember, and the scales of the next step."""
    remembered: list[Any] = [training.optimizer.state_dict(), training.clipping.state_dict()]
    found = []
    while remembered:
        one = remembered.pop()
        if isinstance(one, Tensor):
            found.append(one)
        elif isinstance(one, dict):
            remembered += [one[key] for key in sorted(one, key=str)]
        elif isinstance(one, list | tuple):
            remembered += one
    clip = training.clipping._at(0, 1.5)
    return found + ([] if clip.scales is None else [clip.scales[name] for name in sorted(clip.scales)])


@pytest.mark.parametrize("name", METHODS)
def test_a_gradient_that_is_not_a_number_changes_nothing(name: str, tmp_path: Path) -> None:
    """As one more row that nobody draws would: here everybody is drawn, and the sum is that of the others."""
    plan = {"batch": 24, "noise_multiplier": 1.5}
    inputs, targets = blobs(23)
    data = torch.cat([inputs, torch.zeros(1, FEATURES)]), torch.cat([targets, targets[:1]])
    one = trained(training_of(name, tmp_path / "a", plan=plan, data=data, engine="bookkeeping"))
    assert bool(torch.isfinite(one).all())
    other = trained(training_of(name, tmp_path / "b", plan=plan, data=(inputs, targets), engine="bookkeeping"))
    assert float((one - other).norm()) <= 1e-4 * float(one.norm())


@pytest.mark.parametrize("name", METHODS)
def test_empty_batches_are_released_like_others(name: str, tmp_path: Path) -> None:
    training = training_of(name, tmp_path, plan={"batch": 1e-9})
    before = weights(training)
    after = trained(training)
    assert bool(torch.isfinite(after).all())
    assert not np.any(after.numpy() == before.numpy())


@pytest.mark.parametrize("name", METHODS)
def test_what_it_trains_is_certified(name: str, tmp_path: Path) -> None:
    publish(training_of(name, tmp_path, stream=None).run(progress=False), tmp_path / "out")
    found = verify(tmp_path / "out")
    assert found.accepted, [check for check in found.checks if not check.passed]
