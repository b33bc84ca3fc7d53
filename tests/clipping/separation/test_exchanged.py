"""What a model changes in Python while the backward pass runs, where no operator shows it."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from checkpointed import CLIP, LOSS, by_turns, computed_again, running
from mixing_modules import CLASSES, FEATURES, HIDDEN
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk
from discreet.clipping.separation import Mixes, examined, proved, recorder


class Scale(nn.Module):
    """A module without a rule, which takes its input in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, HIDDEN))

    def forward(self, held: list[Tensor]) -> Tensor:
        return held[0] * self.scale


class Exchanging(nn.Module):
    """Puts rows in the opposite order into the list, when a checkpoint runs again."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.own, self.last = nn.Linear(FEATURES, HIDDEN), Scale(), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x))
        held, turned = [h], h.detach().flip(0) * 3.0

        def later(z: Tensor) -> Tensor:
            held[0] = turned
            return torch.tanh(z)

        found: Tensor = self.last(computed_again(by_turns(torch.tanh, later), self.own(held)))
        return found


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_lists_that_modules_were_given_are_read_as_they_were(engine: str) -> None:
    """With the model's own list, the sum was not that of rows alone."""
    torch.manual_seed(0)
    model = Exchanging()
    inputs, targets = torch.randn(6, FEATURES), torch.arange(6) % CLASSES
    whole = ENGINES[engine].clipped_sum(model, LOSS, Chunk(inputs, targets), CLIP)
    alone = [
        ENGINES[engine].clipped_sum(model, LOSS, Chunk(inputs[i : i + 1], targets[i : i + 1]), CLIP) for i in range(6)
    ]
    for name, part in whole.items():
        torch.testing.assert_close(part, sum(one[name] for one in alone), rtol=1e-5, atol=1e-6)


class Adds:
    """Something that torch asks what to do with it, inside which functions of torch are not intercepted."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        numbers = args[1].detach().numpy()
        numbers[:] = numbers[::-1].copy()
        return args[1]


def test_objects_that_torch_asks_are_refused() -> None:
    with pytest.raises(Mixes, match="objects of a type of their own"):
        proved(running(lambda h: torch.add(Adds(), h * 1.0)))  # type: ignore[call-overload, no-any-return]


class Finalized(nn.Module):
    """Turns what a layer was given round, when the backward pass of a larger batch lets a tensor go."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)
        self.middle = nn.Linear(HIDDEN, HIDDEN)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x)) * 1.0
        freed, memory = self.middle(h) * 1.0, h.data
        if len(x) > 20:
            weakref.finalize(freed, lambda: memory.copy_(memory.flip(0)))
        return self.last(freed * freed)  # type: ignore[no-any-return]


def test_a_finalizer_that_writes_is_seen_where_data_was_used() -> None:
    model = Finalized()

    def run(rows: int) -> None:
        given = torch.randn(rows, FEATURES), torch.arange(rows) % CLASSES
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(*given), CLIP)

    template, look = examined(run), recorder.Recorder(plain_loss=True)
    with look.recording():
        run(19)
        run(24)
    assert [template.matches(one) for one in look.programs] == [True, False]
