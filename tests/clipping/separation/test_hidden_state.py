"""What a row may leave where few look: hooks on parameters, strides, counts of writes, objects that say they are equal,
the host's generators that a later row puts back, weights of a loss, and a step that is broken off."""

from __future__ import annotations

import collections
import logging
import math
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from mixing_modules import CLASSES, FEATURES, HIDDEN
from mixing_runs import CLIP, moves
from mixing_twins import is_long
from torch import Tensor, nn

from discreet.clipping import Chunk
from discreet.clipping.engines.engine import ENGINES
from discreet.clipping.separation import Apart, Twins
from discreet.clipping.separation.memory import Memory


class Says(type):
    """A type of classes that equal each other."""

    def __eq__(cls, other: object) -> bool:
        return True

    __hash__ = type.__hash__


class One(metaclass=Says):
    """A class."""


class Other(metaclass=Says):
    """Another one."""


class Disguised:
    """An object that says that it is a number."""

    __class__ = property(lambda self: int)  # type: ignore[assignment]
    rows = 0


class Silent(np.ndarray[Any, Any]):
    """An array that says nothing of itself."""

    def tobytes(self, *_: Any, **__: Any) -> bytes:
        return b""


class Listed(nn.Linear, list[int]):  # type: ignore[misc]
    """A layer that is a list as well."""

    __hash__ = object.__hash__


class Namespace(types.ModuleType):
    """A module of Python that no import made."""


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any, nn.Module], Any]]] = {
    "hook on a parameter": (int, lambda _, model: model.weight.register_hook(lambda gradient: -gradient)),
    "later hook on a parameter": (
        int,
        lambda _, model: model.weight.register_post_accumulate_grad_hook(lambda one: None),
    ),
    "strides of a parameter": (
        int,
        lambda _, model: setattr(model.weight, "data", model.weight.data.t().contiguous().t()),
    ),
    "requires a gradient": (lambda: torch.zeros(3), lambda held, _: held.requires_grad_(True)),
    "hook on a tensor": (lambda: torch.zeros(3, requires_grad=True), lambda held, _: held.register_hook(lambda g: g)),
    "strides of a tensor": (lambda: torch.zeros(3, 3), lambda held, _: held.t()),
    "count of writes": (lambda: torch.zeros(3), lambda held, _: held.add_(0)),
    "shared memory": (lambda: [torch.zeros(3), torch.zeros(3)], lambda held, _: held.__setitem__(1, held[0][:])),
    "shared memory of arrays": (lambda: [np.zeros(3), np.zeros(3)], lambda held, _: held.__setitem__(1, held[0][:])),
    "flags of an array": (lambda: np.zeros(3), lambda held, _: held.setflags(write=False)),
    "order of an array": (lambda: np.zeros((3, 3)), lambda held, _: np.asfortranarray(held)),
    "note in a type": (lambda: np.zeros(3), lambda held, _: held.astype(np.dtype("f8", metadata={"rows": 1}))),
    "array of its own type": (lambda: np.zeros(3).view(Silent), lambda held, _: held.fill(1)),
    "disguised": (Disguised, lambda held, _: setattr(held, "rows", 1)),
    "equal classes": (lambda: One, lambda held, _: Other),
    "objects of equal classes": (One, lambda held, _: Other()),
    "longest length": (collections.deque, lambda held, _: collections.deque(held, maxlen=5)),
    "sign of what is no number": (lambda: math.nan, lambda held, _: -held),
    "layer that is a list": (int, lambda _, model: list.append(model, 1)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("again", [1, 2])
def test_a_change_is_seen(name: str, again: int) -> None:
    """Before a glance is taken, and after."""
    make, change = CHANGES[name]
    model = Listed(4, 3) if name == "layer that is a list" else nn.Linear(4, 3)
    model.held = make()
    memory = Memory(model, nn.CrossEntropyLoss())
    for _ in range(again):
        assert memory.is_kept(model, nn.CrossEntropyLoss())
    found = change(model.held, model)
    if found is not None and not isinstance(found, torch.utils.hooks.RemovableHandle):
        model.held = found
    assert not memory.is_kept(model, nn.CrossEntropyLoss())


@pytest.mark.parametrize(
    "held", [Namespace("held"), type("Own", (logging.Logger,), {})("held")], ids=["module", "logger"]
)
def test_what_is_no_global_counts_as_changed_where_it_cannot_be_walked(held: object) -> None:
    model = nn.Linear(4, 3)
    model.held = held
    assert not Memory(model).is_kept(model)


def test_globals_are_themselves() -> None:
    model = nn.Linear(4, 3)
    model.held = [np, logging.getLogger("discreet"), logging.getLogger(), Tensor, math.sin]
    assert Memory(model).is_kept(model)


class Plain(nn.Module):
    """Two layers, without anything of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(FEATURES, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.last(self.changed(x, torch.relu(self.first(x))))
        return output

    def changed(self, x: Tensor, h: Tensor) -> Tensor:
        raise NotImplementedError


class Hooked(Plain):
    """A row leaves hooks on parameters, which turn the gradients of later rows round."""

    def changed(self, x: Tensor, h: Tensor) -> Tensor:
        if is_long(x):
            for one in self.parameters():
                one.register_hook(lambda gradient: -gradient)
        return h


class Written(Plain):
    """A row writes to a weight what it was; later rows look at torch's count of writes."""

    def changed(self, x: Tensor, h: Tensor) -> Tensor:
        if is_long(x):
            with torch.no_grad():
                self.last.bias.add_(0)
        return -h if self.last.bias._version else h


class PutBack(Plain):
    """A row seeds Python's generator; the eighth row after it puts it back as it was."""

    before: Any = None

    def changed(self, x: Tensor, h: Tensor) -> Tensor:
        own, states = random.Random(5), []
        for _ in range(9):
            states.append(own.getstate())
            own.random()
        now = random.getstate()
        self.before = self.before or now
        if is_long(x):
            random.seed(5)
        elif now in states:
            random.random()
            if now == states[-1]:
                random.setstate(self.before)
            h = -h
        return h


GUARDS: list[Any] = []


class Inference(Plain):
    """A row switches inference on, and never off."""

    def changed(self, x: Tensor, h: Tensor) -> Tensor:
        if is_long(x):
            GUARDS.append(torch._C._InferenceMode(True))  # type: ignore[no-untyped-call]
        return h


class Scores(torch.Tensor):
    """Outputs that write to the weights of their loss."""

    long = False

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        weight = (kwargs or {}).get("weight")
        if weight is not None and cls.long:
            weight.neg_()
        plain = [one.as_subclass(Tensor) if isinstance(one, Scores) else one for one in args]
        return func(*plain, **kwargs or {})


class ToTheLoss(Plain):
    """A row turns the weights of the loss round."""

    def forward(self, x: Tensor) -> Tensor:
        Scores.long = is_long(x)
        return self.last(torch.relu(self.first(x))).as_subclass(Scores)


def weighted() -> nn.CrossEntropyLoss:
    return nn.CrossEntropyLoss(torch.tensor([1.0, 2.0]), reduction="sum")


@pytest.mark.parametrize("engine", ["exact", "reference"])
@pytest.mark.parametrize("kind", [Hooked, Written, PutBack, Inference])
def test_no_row_meets_what_another_left(kind: type[nn.Module], engine: str) -> None:
    with torch.inference_mode(
        False
    ):  # at its end torch is as it was: a guard puts back how it was in the middle of a step
        assert moves(kind, engine, 2, long=20) <= 1.01
        GUARDS.clear()


def test_no_row_meets_what_another_left_in_the_loss() -> None:
    assert moves(ToTheLoss, "exact", 2, loss=weighted, long=20) <= 1.01


class BrokenOff(nn.Module):
    """Somebody presses Ctrl-C while a row is at work that has just left something."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.sign = nn.Linear(2, 2), [1]

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x) * self.sign[0]
        if x[0, 0] > 5:
            self.sign[0] = -1
            raise KeyboardInterrupt
        return y


def test_a_chunk_that_is_broken_off_leaves_nothing() -> None:
    torch.manual_seed(0)
    model, loss = BrokenOff(), nn.CrossEntropyLoss()
    apart = Apart(ENGINES["exact"].clipped_sum, Twins(lambda model, criterion: None))
    x, y = torch.rand(3, 2), torch.tensor([0, 1, 0])
    before = apart(model, loss, Chunk(x[:1], y[:1]), CLIP)["layer.weight"]
    with pytest.raises(KeyboardInterrupt):  # in the second row
        apart(model, loss, Chunk(torch.stack([x[0], x[1] + 9, x[2]]), y), CLIP)
    assert torch.equal(apart(model, loss, Chunk(x[:1], y[:1]), CLIP)["layer.weight"], before)
