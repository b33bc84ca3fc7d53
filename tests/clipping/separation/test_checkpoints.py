"""Functions under `torch.utils.checkpoint` are proved if they compute again what they computed at first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from checkpointed import below, computed_again, running, two_ways
from torch import Tensor
from torch.utils import checkpoint
from torch.utils.checkpoint import create_selective_checkpoint_contexts, set_checkpoint_early_stop

from discreet.clipping.separation import Mixes, examined, proved, recorder


def _laid(h: Tensor, function: Callable[[list[Tensor], Tensor], Tensor]) -> Tensor:
    """A function of two columns one below the other, which lie row by row when it runs again."""
    one, other = two_ways(h)
    held = [one]
    found = function(held, torch.cat([h[:, 2:3], h[:, 3:4]]))
    held[0] = other
    return below(h, found)


def _stopping_early(held: list[Tensor], u: Tensor) -> Tensor:
    with set_checkpoint_early_stop(True):
        found: Tensor = computed_again(lambda u: held[0] * u, u)
    return found


def _swapped(h: Tensor) -> Tensor:
    """Two functions, each of which computes the second time what the other one did at first."""
    n, (one, other) = len(h), two_ways(h)
    held = [one, other]
    y, v = computed_again(lambda: held[0].exp()), computed_again(lambda: held[1].exp())
    held[:] = [other, one]
    return torch.cat([y[:n], y[n:], v.view(n, 2), h[:, 4:]], 1)


def _longer(h: Tensor) -> Tensor:
    """An operator more the second time."""
    calls: list[None] = []

    def function(z: Tensor) -> Tensor:
        calls.append(None)
        return torch.tanh(z) + 1 if len(calls) > 1 else torch.tanh(z)

    return computed_again(function, h)  # type: ignore[no-any-return]


DIFFER: dict[str, Callable[[Tensor], Tensor]] = {
    "a factor": lambda h: _laid(h, lambda held, u: computed_again(lambda u: held[0] * u, u)),
    "what a derivative saves of it": lambda h: _laid(h, lambda held, u: computed_again(lambda: held[0].exp())),
    "where it is told to stop early": lambda h: _laid(h, _stopping_early),
    "in a checkpoint of a checkpoint": lambda h: _laid(
        h, lambda held, u: computed_again(lambda v: computed_again(lambda z: z.exp(), held[0]) * v, u)
    ),
    "what another one computed": _swapped,
    "an operator more": _longer,
}
"""Functions that differ the second time, by tensors or operators that torch does not compare."""


@pytest.mark.parametrize("name", DIFFER)
def test_functions_that_compute_something_else_again_are_not_proved(name: str) -> None:
    """All but the last made rows meet when only what a checkpoint computes was followed, and not beside what it
    computed at first."""
    with pytest.raises(Mixes, match=r"torch\.utils\.checkpoint (runs other operators when it )?is run again"):
        proved(running(DIFFER[name]))


def _filled(z: Tensor) -> Tensor:
    found = torch.zeros_like(z)
    found[:, ::2] = z[:, ::2].exp()
    found[:, 1::2] = z[:, 1::2].sin()
    return found * z


SAME: dict[str, Callable[[Tensor], Tensor]] = {
    "one": lambda h: computed_again(lambda z: torch.tanh(z) * z, h),
    "one after the other": lambda h: computed_again(torch.tanh, computed_again(torch.sigmoid, h)),
    "one in another, at its start": lambda h: computed_again(lambda z: computed_again(torch.tanh, z) * z, h),
    "one in another, at its end": lambda h: computed_again(lambda z: computed_again(torch.tanh, z * z), h),
    "one in another, in its middle": lambda h: computed_again(lambda z: computed_again(torch.tanh, z * z).exp() + z, h),
    "with memory that is written to": lambda h: computed_again(lambda z: torch.empty_like(z).fill_(2) * z, h),
    "with memory that is filled in parts": lambda h: computed_again(_filled, h),
    "with random numbers of each row": lambda h: computed_again(lambda z: F.dropout(torch.tanh(z), 0.3) * z, h),
    "with statistics that nobody uses": lambda h: computed_again(lambda z: (z.mean(0), torch.tanh(z))[1], h),
}


@pytest.mark.parametrize("name", SAME)
def test_functions_that_compute_the_same_again_are_proved(name: str) -> None:
    proved(running(SAME[name]))


def test_a_checkpoint_that_keeps_some_results_is_not_proved() -> None:
    """An operator whose result is kept is not called again, so what its derivative gets is not seen."""
    contexts = partial(create_selective_checkpoint_contexts, [torch.ops.aten.tanh.default])
    with pytest.raises(Mixes, match="runs in a mode"):
        proved(running(lambda h: computed_again(lambda z: torch.tanh(z) * z.exp(), h, context_fn=contexts)))


def test_older_checkpoints_are_told_from_code_of_the_model() -> None:
    """Until torch 2.11 they read the node of a tensor that they saved. (As code of that file; torch's own is newer.)"""
    read = "def node(h):\n    return h.grad_fn and h"
    for file, said in (
        (checkpoint.__file__, "is checkpointed in a way that is not followed"),
        ("model.py", "has a part in"),
    ):
        exec(compile(read, file, "exec"), found := {})
        with pytest.raises(Mixes, match=said):
            proved(running(found["node"]))


def test_a_run_matches_only_if_each_checkpoint_computes_the_same_operators() -> None:
    run = running(SAME["one after the other"])
    template, look = examined(run), recorder.Recorder()
    with look.recording():
        run(9)
    (ran,) = look.programs
    assert template.matches(ran)
    again = [one for one in ran.stretches if one.again]
    again[0].checkpoint, again[1].checkpoint = again[1].checkpoint, again[0].checkpoint
    assert not template.matches(ran)
