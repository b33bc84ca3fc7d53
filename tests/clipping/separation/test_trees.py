"""Containers that somebody else's code takes apart, which may do anything with the tensors in them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from mixing_modules import HIDDEN, Two
from mixing_runs import training
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils import _pytree

from discreet import UnsupportedModel
from discreet.clipping.separation.recording.trees import check_containers

transformers = pytest.importorskip("transformers")

PART = torch.ones(2, 1)


class Box:
    """A container with code of its own to take it apart, which adds the sum of all rows to each of them."""

    def __init__(self, held: Tensor) -> None:
        self.held = held


def _apart(box: Box) -> tuple[list[Tensor], None]:
    if box.held.grad_fn is not None and len(box.held) == 37:
        box.held.data.add_(box.held.data.sum(0))
    return [box.held], None


_pytree.register_pytree_node(Box, _apart, lambda parts, _: Box(next(iter(parts))))


class TakesBox(nn.Linear):
    """A layer that is given a box."""

    def forward(self, box: Any) -> Tensor:
        return super().forward(box.held)


class Given(Two):
    """Gives a box to a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.own = TakesBox(HIDDEN, HIDDEN)

    def between(self, h: Tensor) -> Tensor:
        found: Tensor = self.own(Box(torch.tanh(h)))
        return found


class Returned(Two):
    """Returns a box."""

    def forward(self, x: Tensor) -> Any:
        return Box(self.last(torch.tanh(self.first(x))))


def of_box(output: Any, target: Tensor) -> Tensor:
    """A loss of boxes."""
    return nn.functional.cross_entropy(output.held, target)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_modules_may_be_given_no_such_container(engine: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="a Box, which code of its own takes apart"):
        training(Given, engine, tmp_path)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_nor_may_they_return_one(engine: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="a Box, which code of its own takes apart"):
        training(Returned, engine, tmp_path, criterion=of_box)


Pair = namedtuple("Pair", ("one", "other"))


class Typed(NamedTuple):
    """One with types."""

    one: Tensor
    other: int = 2


class Turned(Pair):
    """One that is read in another order."""

    def __iter__(self) -> Any:
        return iter((self.other, self.one))


@dataclass
class Output(transformers.utils.ModelOutput):
    """One of `transformers`."""

    one: Tensor | None = None


@dataclass
class Emptied(Output):
    """One that is read otherwise."""

    def values(self) -> Any:
        return []


@pytest.mark.parametrize(
    "values",
    [
        PART,
        [(PART, {"a": PART}), None, 2, "text"],
        OrderedDict(a=[PART]),
        Pair(PART, PART),
        defaultdict(list, {2: PART}),
        Typed(PART),
        torch.aminmax(PART),
        PART.shape,
        pack_padded_sequence(torch.ones(3, 2, 1), torch.tensor([3, 2])),
        Output(PART),
        transformers.modeling_outputs.BaseModelOutput(PART),
    ],
)
def test_plain_ones_are_taken_apart_by_torch_and_python(values: Any) -> None:
    check_containers((values,))


@pytest.mark.parametrize("values", [{Box(PART): PART}, [defaultdict(lambda: PART, a=PART)]])
def test_dictionaries_hold_nothing_but_by_their_values(values: Any) -> None:
    with pytest.raises(UnsupportedModel, match="with objects as keys, or with a function for missing ones"):
        check_containers((values,))


@pytest.mark.parametrize("values", [Box(PART), Turned(PART, PART), Emptied(PART), [Typed(Box(PART))]])  # type: ignore[arg-type]
def test_others_are_not(values: Any) -> None:
    with pytest.raises(UnsupportedModel, match="which code of its own takes apart"):
        check_containers((values,))
