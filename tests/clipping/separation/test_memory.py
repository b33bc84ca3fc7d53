"""What is seen of the memory of models: all that `copy.deepcopy` copies, by value."""

from __future__ import annotations

import collections
import functools
import io
import itertools
import logging
import random
import threading
import warnings
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mixing_memories import KEEPS, Late, Slots
from mixing_modules import FEATURES, Two
from mixing_runs import CLIP, moves, training
from torch import Tensor, nn

from discreet.clipping import Chunk, training_mode
from discreet.clipping.separation.memory import Memory


class Child(Slots):
    """Has slots of a parent, and attributes."""


class Hides:
    """Leaves out of copies what it counts."""

    def __init__(self) -> None:
        self.count = 0

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Named(dict[str, int]):
    """A dictionary with attributes."""


def put(name: str, value: object) -> Callable[[Any], None]:
    return lambda one: setattr(one, name, value)


OBJECTS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "slots": (Slots, put("rows", 1)),
    "slots of a parent": (Child, put("rows", 1)),
    "a tensor in a slot": (lambda: Slots(0, torch.zeros(3)), lambda one: one.last.data.add_(1)),
    "what copies leave out": (Hides, put("count", 1)),
    "attributes of a dictionary": (Named, put("count", 1)),
    "a count": (itertools.count, next),
    "a count in a factory": (lambda: collections.defaultdict(itertools.count().__next__), lambda one: one["a"]),
    "an iterator": (lambda: iter(range(9)), next),
    "an array": (lambda: array("d", [0.0]), lambda one: one.append(1.0)),
    "bytes": (bytearray, lambda one: one.append(1)),
    "a stream": (io.StringIO, lambda one: one.write("a")),
    "a partial": (lambda: functools.partial(len, []), lambda one: one.args[0].append(1)),
    "a method": (lambda: Child().__eq__, lambda one: put("rows", 1)(one.__self__)),
    "a method of a list": (lambda: [].append, lambda one: one(1)),
    "a set": (lambda: {1, 2}, lambda one: one.add(3)),
    "objects in an array": (lambda: np.array([0, []], dtype=object), lambda one: one[1].append(1)),
    "NumPy's old generator": (lambda: np.random.RandomState(0), lambda one: one.rand()),
    "NumPy's generator": (lambda: np.random.default_rng(0), lambda one: one.random()),
    "half a draw": (lambda: np.random.default_rng(0), lambda one: one.integers(3, dtype=np.int32)),
    "Python's generator": (lambda: random.Random(0), lambda one: one.random()),
    "torch's generator": (torch.Generator, lambda one: torch.rand(1, generator=one)),
    "a large tensor": (lambda: torch.zeros(5000), lambda one: one.data.add_(1)),
    "part of a tensor": (lambda: torch.zeros(4, 4).t()[:, 1:3], lambda one: one.data.add_(1)),
    "minus zero": (lambda: torch.zeros(2), lambda one: one.data.neg_()),
    "a sparse tensor": (lambda: torch.eye(3).to_sparse(), lambda one: one._values().data.add_(1)),
    "which of several": (lambda: [[1, 2], [1, 2], None], lambda one: one.__setitem__(2, one[1])),
    "1 or true": (lambda: [1], lambda one: one.__setitem__(0, True)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_change_is_seen_and_no_change_is_none(name: str) -> None:
    make, change = OBJECTS[name]
    model = nn.Linear(2, 2)
    model.kept = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory = Memory(model)
        assert memory.is_kept(model)
        assert memory.is_kept(model)  # perhaps at a glance
    change(model.kept)
    assert not memory.is_kept(model)


def test_what_refers_to_another_of_the_same_is_another() -> None:
    holder = [[1], [1], None]
    holder[2] = holder[0]
    memory = Memory(holder)
    holder[2] = holder[1]
    assert not memory.is_kept(holder)


@pytest.mark.parametrize("one", [threading.Lock(), (i for i in range(3))])
def test_what_cannot_be_looked_into_is_never_the_same(one: object) -> None:
    assert not Memory(one).is_kept(one)


def test_a_list_that_is_too_deep_is_never_the_same() -> None:
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    assert not Memory(deep).is_kept(deep)
    while deep:  # or else Python takes it apart from within
        deep = deep[0]


@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(3, 3),
        nn.MultiheadAttention(4, 2),
        nn.BatchNorm1d(3),
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
    ],
    ids=lambda module: type(module).__name__,
)
def test_modules_of_torch_are_the_same(module: nn.Module) -> None:
    memory = Memory(module)
    assert memory.is_kept(module)


def test_parameters_and_loggers_may_change() -> None:
    model = nn.Linear(2, 2)
    model.log = logging.getLogger("discreet.memory")
    memory = Memory(model, nn.CrossEntropyLoss())
    model.weight.data.add_(1)
    model.log.isEnabledFor(logging.DEBUG)
    assert memory.is_kept(model, nn.CrossEntropyLoss())
    model.weight.seen = 1
    assert not memory.is_kept(model, nn.CrossEntropyLoss())


@pytest.mark.parametrize("name", KEEPS)
def test_no_memory_moves_a_sum_of_an_engine_that_runs_rows_apart(name: str) -> None:
    assert moves(KEEPS[name], "reference", 6) <= 1.01


MARK = 77.0


class Marked(Two):
    """Rows between two that are marked are turned about."""

    def __init__(self) -> None:
        super().__init__()
        self.turned = False

    def forward(self, x: Tensor) -> Tensor:
        if float(x[0, 0]) == MARK:
            self.turned = not self.turned
        output: Tensor = self.last(torch.relu(self.first(x))) * (-1 if self.turned else 1)
        return output


@pytest.mark.parametrize("engine", ["reference", "exact"])
def test_what_the_last_row_of_a_chunk_puts_back_was_there(engine: str, tmp_path: Path) -> None:
    """The first row tells the others something, and afterwards nothing is to be seen of it."""
    inputs, targets = torch.randn(40, FEATURES, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2
    inputs[[0, -1], 0] = MARK
    sums = []
    for first in (0, 1):
        made = training(Marked, engine, tmp_path / str(first))
        training_mode(made.model)
        sums.append(made.engine.clipped_sum(made.model, made.criterion, Chunk(inputs[first:], targets[first:]), CLIP))
    square = sum(float((sums[0][name] - sums[1][name]).square().sum()) for name in sums[0])
    assert square**0.5 <= 1.01


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_a_buffer_that_is_written_past_torch_moves_no_sum(engine: str) -> None:
    assert moves(Late, engine, 24) <= 1.01


def test_a_gradient_that_a_model_leaves_to_its_parameters_is_remembered() -> None:
    model = nn.Linear(2, 1)
    before = Memory(model)
    assert before.is_kept(model)
    model(torch.ones(1, 2)).sum().backward()
    assert not before.is_kept(model)
