"""An engine, a step and a preflight leave the model and torch's settings as they found them, also when they fail.

Failures are put in the middle of the forward pass, the loss, the backward pass and the clipping.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from problems import CLASSES, FEATURES, blobs, tiny_training
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.capture import capture
from discreet.clipping.digests import state_digests
from discreet.clipping.engines import bookkeeping, ghost
from discreet.clipping.engines import engine as engines
from discreet.clipping.rules import linear
from discreet.core.errors import InputError
from discreet.training import Session
from discreet.training.preflight.engine_check import try_engines

CLIP = Clip(0.3, 2.0**-30)
PLACES = ("nowhere", "forward", "loss", "backward", "clipping", "rule", "vectorised")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Stop(Exception):
    pass


def stop(*_: object, **__: object) -> Any:
    raise Stop


class Fuse(nn.Module):
    """Does nothing, or fails where it is told to."""

    place = "nowhere"

    def forward(self, x: Tensor) -> Tensor:
        if self.place == "forward":
            stop()
        if self.place == "backward" and x.requires_grad:
            x.register_hook(stop)
        return x


class Scaled(nn.Module):
    """A module that has no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Mixed(nn.Module):
    """Layers that are trained, frozen, tied, shared in part and parametrised, some in evaluation mode, with hooks and
    buffers of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.frozen = nn.Linear(FEATURES, 5), nn.Linear(5, 5)
        self.frozen.weight.requires_grad_(False)
        self.second, self.third = nn.Linear(5, 5), nn.Linear(5, 5)
        self.third.weight = self.second.weight
        self.scaled, self.fuse = Scaled(), Fuse()
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(5, 5))
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(5, CLASSES)
        self.register_buffer("shift", torch.full((FEATURES,), 0.1))
        self.register_buffer("hidden", torch.ones(1), persistent=False)
        self.called = self.first.register_forward_hook(lambda *_: None)
        self.first.register_forward_pre_hook(lambda *_: None)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.second(self.frozen(self.first(x + self.shift))))
        x = self.fuse(torch.tanh(self.third(x)))
        return self.head(self.drop(self.normed(self.scaled(x * self.hidden))))


def mixed() -> Mixed:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Mixed()
    model.train()
    model.drop.eval()  # so that an engine draws nothing
    model.frozen.eval()
    return model


def seen(model: nn.Module) -> dict[str, Any]:
    """All that must be the same afterwards."""
    parameters = list(model.named_parameters(remove_duplicate=False))
    return {
        "state": state_digests(model),
        "hidden": {name: buffer.clone().tolist() for name, buffer in model.named_buffers()},
        "parameters": [(name, id(one), one._version, one.requires_grad) for name, one in parameters],
        "gradients": [(name, None if one.grad is None else one.grad.clone().tolist()) for name, one in parameters],
        "modes": [(name, module.training) for name, module in model.named_modules()],
        "types": [type(module) for module in model.modules()],
        "hooks": [{kind: list(getattr(module, kind)) for kind in HOOKS} for module in model.modules()],
        "names": [sorted(vars(module)) for module in model.modules()],
        "settings": [
            torch.is_grad_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            torch.get_default_dtype(),
            torch.is_inference_mode_enabled(),
        ],
        "torch": torch.get_rng_state().tolist(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[index]  # noqa: NPY002
        "python": random.getstate(),
    }


def seen_but_versions(model: nn.Module) -> dict[str, Any]:
    """The same where weights are moved and put back, to see whether examples mix: they count that as a change."""
    found = seen(model)
    return found | {"parameters": [(name, which, asks) for name, which, _, asks in found["parameters"]]}


def loss(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output, target, reduction="sum")


@contextmanager
def failing(model: Mixed, place: str) -> Iterator[Callable[[Tensor, Tensor], Tensor]]:
    """Inside, something fails at `place`; yields the loss to use."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fuse, "place", place)
        if place == "clipping":
            for module, name in (
                (bookkeeping, "decide"),
                (ghost, "decide"),
                (engines, "clipped"),
                (engines, "clipped_sum"),
            ):
                patch.setattr(module, name, stop)
        if place == "rule":
            patch.setattr(linear.LinearRule, "total", stop)
            patch.setattr(engines.torch.autograd, "grad", stop)
            patch.setattr(engines, "grad", stop)
        if place == "vectorised":
            patch.setattr("discreet.clipping.rules.vectorised.Vectorised._run", stop)
            patch.setattr(engines, "vectorised_call", stop)
            patch.setattr(engines, "_per_row", stop)
        yield stop if place == "loss" else loss


def expected(place: str) -> Any:
    return nullcontext() if place == "nowhere" else pytest.raises(Stop)


def take(session: Session, criterion: Callable[[Tensor, Tensor], Tensor]) -> None:
    with session.step() as step:
        for chunk in step.chunks:
            step.add(criterion, chunk)


def check_engine(engine: str, place: str) -> None:
    """With gradients that the user put there, and torch's settings not as they come."""
    model, (inputs, targets) = mixed(), blobs(7)
    model.head.weight.grad = torch.ones_like(model.head.weight)
    wanted = ENGINES[engine].clipped_sum(model, loss, Chunk(inputs, targets), CLIP)
    torch.set_float32_matmul_precision("medium")
    try:
        before = seen(model)
        with failing(model, place) as criterion, expected(place):
            ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets), CLIP)
        after = seen(model)
        assert {key for key in before if before[key] != after[key]} == set()
    finally:
        torch.set_float32_matmul_precision("highest")
    again = ENGINES[engine].clipped_sum(model, loss, Chunk(inputs, targets), CLIP)
    assert all(torch.equal(wanted[key], again[key]) for key in wanted)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_leaves_everything_as_it_was(engine: str, place: str) -> None:
    check_engine(engine, place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_step_leaves_everything_but_the_release_as_it_was(tmp_path: Path, engine: str, place: str) -> None:
    """Dropout draws inside of it, from a generator that is put back. Rows on which it fails add nothing; a loss that
    was not checked is refused, and nothing released."""
    model = mixed()
    training = tiny_training(tmp_path, model=model, engine=engine, criterion=loss, physical_batch=5)
    with training.session() as session:
        session.ready()
        before = seen(model)
        with (
            failing(model, place) as criterion,
            pytest.raises(InputError, match="another loss") if place == "loss" else nullcontext(),
        ):
            take(session, criterion)
        after = seen(model)
        released = {"state", "parameters"} if place != "loss" else set()
        assert {key for key in before if before[key] != after[key]} == released
        assert session.position == 1
        take(session, loss)  # the run goes on
        assert session.position == 2


@pytest.mark.parametrize("engine", ["auto", *ENGINES])
def test_a_rehearsal_leaves_everything_as_it_was(tmp_path: Path, engine: str) -> None:
    model = mixed()
    training = tiny_training(tmp_path, model=model)
    before = seen_but_versions(model)
    try_engines(engine, model, loss, training.data, CLASSES)
    assert seen_but_versions(model) == before
    with failing(model, "backward"), pytest.raises(Stop):
        try_engines(engine if engine != "reference" else "auto", model, loss, training.data, CLASSES)
    assert seen_but_versions(model) == before


def precision_not_restored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bookkeeping, "full_precision", lambda device: _without_end())


@contextmanager
def _without_end() -> Iterator[None]:
    torch.set_float32_matmul_precision("highest")
    yield


def hooks_kept_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def recording(owners: list[Any], examples: int) -> Iterator[list[Any]]:
        calls: list[Any] = []
        hooks = [(one, capture._recorder(one, calls, examples)) for one in owners]
        handles = [one.module.register_forward_hook(hook, with_kwargs=True) for one, hook in hooks]
        yield calls
        for handle in handles:  # not reached when the forward pass fails
            handle.remove()

    patch.setattr(capture, "_recording", recording)


@pytest.mark.parametrize(
    ("plant", "place"), [(precision_not_restored, "nowhere"), (hooks_kept_after_a_failure, "forward")]
)
def test_a_planted_fault_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], place: str
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        check_engine("bookkeeping", place)
