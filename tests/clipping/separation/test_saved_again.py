"""Models are not proved if what derivatives get is seen by no operator: what functions under `torch.utils.checkpoint`
save the second time, what is written to it, what modes and operators of their own do.

These made rows meet, a row add more than the clip norm, or the proof end in an error that nobody understands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from checkpointed import below, by_turns, computed_again, running, two_ways
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from discreet.clipping.separation import Mixes, proved


def _gradients_on_elsewhere(h: Tensor) -> Tensor:
    """Of two operators the other one saves its result the second time."""
    one, other = two_ways(h)

    def run(on: bool) -> Tensor:
        with torch.set_grad_enabled(on):
            found = one.exp()
        with torch.set_grad_enabled(not on):
            other.exp()
        return found

    return below(h, computed_again(by_turns(lambda: run(True), lambda: run(False))))


class _Saves(torch.autograd.Function):
    """An exponential that saves something else."""

    @staticmethod
    def forward(context: Any, given: Tensor, saved: Tensor) -> Tensor:
        context.save_for_backward(saved)
        return given.exp()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * context.saved_tensors[0], None


def _function_of_its_own(h: Tensor) -> Tensor:
    one, other = two_ways(h)
    apply: Any = _Saves.apply
    return below(h, computed_again(by_turns(lambda: one.exp(), lambda: apply(one, other.detach()))))


def _after_one_that_is_gone(h: Tensor) -> Tensor:
    """The third checkpoint is not taken for the second one when the first one is gone."""
    one, other = two_ways(h)
    held, gone = [other], computed_again(h.exp)
    second = computed_again(lambda: one.exp())
    del gone
    third = computed_again(lambda: held[0].exp()).view(len(h), 2)
    held[0] = one
    return torch.cat([below(h, second)[:, :2], third, h[:, 4:]], 1)


def _written_as_an_array(h: Tensor) -> Tensor:
    def later(z: Tensor) -> Tensor:
        found = z.exp()
        numbers = found.detach().numpy()
        numbers[:] = numbers[::-1].copy()
        return found * z

    found: Tensor = computed_again(by_turns(lambda z: z.exp() * z, later), h)
    return found


def _of_a_gradient(h: Tensor) -> Tensor:
    """Rows in the opposite order, as a gradient that is taken the second time."""
    zeros = torch.zeros_like(h).requires_grad_()
    turned = zeros.flip(0)

    def later(z: Tensor) -> Tensor:
        return torch.autograd.grad(turned, zeros, z.detach(), retain_graph=True)[0].requires_grad_().exp()

    found: Tensor = computed_again(by_turns(torch.exp, later), h)
    return found


def _named_like_torchs(h: Tensor) -> Tensor:
    def _engine_run_backward(found: Tensor) -> None:
        found.detach().copy_(found.flip(0))

    def later(z: Tensor) -> Tensor:
        found = z.exp()
        with torch.no_grad():
            _engine_run_backward(found)
        return found * 1.0

    found: Tensor = computed_again(by_turns(lambda z: z.exp() * 1.0, later), h)
    return found


def _hooks_like_torchs(h: Tensor) -> Tensor:
    """Hooks that pass for those of a checkpoint."""
    one, other = two_ways(h)
    frame = SimpleNamespace(early_stop=True)

    def pack(_: Tensor) -> Any:
        return frame.early_stop

    pack.__module__ = "torch.utils.checkpoint"
    with saved_tensors_hooks(pack, lambda _: other.detach()):
        found = one.exp()
    return below(h, found)


def _written_over(h: Tensor) -> Tensor:
    """Zeros by which one column is multiplied, and over which the columns are then written row by row."""
    one, other = two_ways(h)

    def run(column: Tensor) -> Tensor:
        factor = torch.zeros_like(column)
        found = column * factor
        factor.copy_(other.detach())
        return found.exp()

    return below(h, computed_again(run, one))


def _layers_own_input(h: Tensor) -> Tensor:
    """What the last layer was given is multiplied once its norms are measured."""
    held: list[Tensor] = []

    def run(z: Tensor, written: Tensor) -> Tensor:
        written.data.mul_(1000.0)
        return z.exp()

    first, later = (lambda z: run(z, z.detach() * 1.0)), (lambda z: run(z, (z.detach() * 1.0, held[0])[1]))
    found: Tensor = computed_again(by_turns(first, later), h)
    held.append(found.detach())
    return found


def _seeded_by_a_row(h: Tensor) -> Tensor:
    """Dropout whose generator is set to numbers of the first row the second time."""

    def run(z: Tensor, seeded: bool) -> Tensor:
        number = (z.detach()[:1, :1] * 1000).int().view(torch.uint8).flatten()[:2]
        state = torch.cat([_STATE[:24], number, _STATE[26:]])
        if seeded:
            torch.set_rng_state(state)
        return F.dropout(torch.tanh(z), 0.5) * z

    found: Tensor = computed_again(by_turns(lambda z: run(z, False), lambda z: run(z, True)), h)
    return found


_STATE = torch.get_rng_state()


def _written_by_data(h: Tensor) -> Tensor:
    """As `_written_over`, without a checkpoint."""
    one, other = two_ways(h)
    factor = torch.zeros_like(one)
    found = one * factor
    factor.data.copy_(other.detach())
    return below(h, found)


class _Replacing(TorchDispatchMode):
    """Returns a tensor of its own in the place of each exponential."""

    def __init__(self, result: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.result = result

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        return self.result if func is torch.ops.aten.exp.default else found


def _replaced(h: Tensor) -> Tensor:
    one, other = two_ways(h)
    with _Replacing(other.detach()):
        found = one.exp()
    return torch.cat([found.view(len(h), 2), h[:, 2:]], 1)


_turned: list[Tensor] = []


@torch.library.custom_op("discreet_tests::turn", mutates_args=())
def _turn(given: Tensor) -> Tensor:
    _turned[0].copy_(_turned[0].flip(0))
    return given.clone()


def _operator_of_its_own(h: Tensor) -> Tensor:
    _turned[:] = [h.detach() * 1.0]
    _turn(torch.zeros(1))
    return h + _turned.pop()


def _after_an_error(h: Tensor) -> Tensor:
    with contextlib.suppress(RuntimeError):
        h.sum().view(3, 3)
    return h


UNSEEN: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "gradients are on elsewhere": (_gradients_on_elsewhere, "saves other tensors when it is run again"),
    "a function with a derivative of its own": (_function_of_its_own, "saves other tensors when it is run again"),
    "after a checkpoint that is gone": (_after_one_that_is_gone, "is given something else when a function"),
    "written to as an array": (_written_as_an_array, "not seen"),
    "of a gradient": (_of_a_gradient, "runs other operators when it is run again"),
    "a function with the name of torch's": (_named_like_torchs, "runs other operators when it is run again"),
    "hooks that look like torch's": (_hooks_like_torchs, "changes what is saved"),
    "written over": (_written_over, "writes over what was saved for a derivative"),
    "random numbers made of a row": (_seeded_by_a_row, "draws other random numbers"),
    "written to by data": (_written_by_data, "writes over what was saved for a derivative"),
    "results replaced in a mode": (_replaced, "runs in a mode"),
    "an operator that writes elsewhere": (_operator_of_its_own, "is not an operator of torch itself"),
    "an operator that fails": (_after_an_error, "goes on after an error of an operator"),
    "what a layer was given": (_layers_own_input, "writes in the backward pass to a tensor from before it"),
}
"""Models, and what is said of them."""


@pytest.mark.parametrize("name", UNSEEN)
def test_functions_that_save_something_else_unseen_are_not_proved(name: str) -> None:
    function, said = UNSEEN[name]
    with pytest.raises(Mixes, match=said):
        proved(running(function))
