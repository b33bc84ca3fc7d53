"""Models in which rows meet late, after many of them, or on the way back from the loss; see `mixing_modules`."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from mixing_modules import Between, Two, entered
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

LATE: dict[str, type[nn.Module]] = {}
BACK: dict[str, type[nn.Module]] = {}


def late(function: Between) -> Between:
    """Rows meet when enough rows were seen."""

    def between(self: Any, h: Tensor) -> Tensor:
        return function(self, h) if self.rows > 1000 else h

    entered(LATE, function.__name__.replace("_", " "), between)
    return function


@late
def late_mean(self: Any, h: Tensor) -> Tensor:
    return h - h.mean(0)


@late
def late_scale(self: Any, h: Tensor) -> Tensor:
    """Rows do not meet, but how many there were decides what is done with each."""
    return h * (1 + self.rows % 7)


@late
def late_queue(self: Any, h: Tensor) -> Tensor:
    before, self.kept = self.kept, h.detach()
    return h if before is None else h - before.mean(0)


@late
def late_running_quantile(self: Any, h: Tensor) -> Tensor:
    self.kept = h.detach().quantile(0.9) if self.kept is None else 0.9 * self.kept + 0.1 * h.detach().quantile(0.9)
    return h / (1 + self.kept)


@late
def late_choice_of_a_known_path(self: Any, h: Tensor) -> Tensor:
    return torch.tanh(h) if (self.rows // 3) % 2 else h


class Reversed(torch.autograd.Function):
    """The identity; the gradient is divided by that of the whole batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return -gradient / (gradient.norm() + 1e-9)


def back(function: Between) -> Between:
    """Gradients meet."""
    entered(BACK, function.__name__.replace("_", " "), function)
    return function


@back
def a_function_of_its_own(self: Any, h: Tensor) -> Tensor:
    found: Tensor = Reversed.apply(h)
    return found


@back
def a_function_now_and_then(self: Any, h: Tensor) -> Tensor:
    found: Tensor = Reversed.apply(h) if bool(torch.rand(()) < 0.1) else h
    return found


@back
def a_hook_on_a_tensor(self: Any, h: Tensor) -> Tensor:
    if h.requires_grad:
        h.register_hook(lambda gradient: gradient / (gradient.abs().max() + 1e-9))
    return h * 1


@back
def a_hook_on_an_operation(self: Any, h: Tensor) -> Tensor:
    h = h * 1
    if h.grad_fn is not None:
        h.grad_fn.register_hook(lambda given, _: tuple(part if part is None else part - part.mean(0) for part in given))
    return h


@back
def a_checkpoint_that_does_something_else(self: Any, h: Tensor) -> Tensor:
    calls = itertools.count()

    def part(z: Tensor) -> Tensor:
        return torch.tanh(z) * (z if next(calls) == 0 else z.flip(0))

    found: Tensor = checkpoint(part, h, use_reentrant=False)
    return found


@back
def tensors_saved_as_something_else(self: Any, h: Tensor) -> Tensor:
    with torch.autograd.graph.saved_tensors_hooks(lambda part: part, lambda part: part.flip(0)):
        return torch.tanh(h) * h


class HookedBack(Two):
    """A backward hook of the user's, on a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.last.register_full_backward_hook(
            lambda module, given, got: tuple(None if part is None else part / (part.norm() + 1e-9) for part in given)
        )


BACK["a backward hook on a module"] = HookedBack

for name in (
    "a function of its own",
    "a hook on a tensor",
    "a hook on an operation",
    "tensors saved as something else",
):
    between = BACK[name].between
    entered(LATE, f"{name}, late", lambda self, h, between=between: between(self, h) if self.rows > 1000 else h)
