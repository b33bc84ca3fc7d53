"""Plain modules are compared at a glance: every change that a walk through them sees is seen so as well."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from discreet.clipping.separation.memory import Memory


class Adapter(nn.Module):
    """A module that keeps settings in containers, as adapters of peft do."""

    def __init__(self) -> None:
        super().__init__()
        self.ranks, self.merged, self.active = {"default": 8}, [], ["default"]
        self.nested = {"given": {"device": torch.device("cpu"), "layers": (1, [2, 3])}}


def model() -> nn.Sequential:
    last = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2))
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), last, Adapter())


class Text(str):
    """Text that may hold something else beside."""


def set_again(one: nn.Module) -> None:
    """The same attributes in another order."""
    training = one.__dict__.pop("training")
    one.__dict__["training"] = training


CHANGES: dict[str, Callable[[nn.Sequential], object]] = {
    "mode": lambda one: one[1].eval(),
    "mode of another type": lambda one: setattr(one[1], "training", 1),
    "new attribute": lambda one: setattr(one[1], "rows", 0),
    "attribute of a kind": lambda one: setattr(one[1], "inplace", torch.zeros(2)),
    "attributes set again": lambda one: set_again(one[1]),
    "another tuple": lambda one: setattr(one[2][0], "normalized_shape", (2, 2)),
    "another number": lambda one: setattr(one[2][0], "eps", 1e-3),
    "text with more": lambda one: setattr(one[0], "padding_mode", Text("zeros")),
    "hook": lambda one: one[2][1].register_forward_hook(lambda *_: None),
    "hook of the whole": lambda one: one.register_forward_pre_hook(lambda *_: None),
    "buffer": lambda one: one[1].register_buffer("rows", torch.zeros(2)),
    "parameter": lambda one: setattr(one[2][1], "weight", nn.Parameter(torch.zeros(2, 4))),
    "no parameter": lambda one: setattr(one[2][1], "bias", None),
    "parameter of another name": lambda one: one[2][1]._parameters.update(b=one[2][1]._parameters.pop("bias")),
    "frozen parameter": lambda one: one[2][1].weight.requires_grad_(False),
    "gradient": lambda one: setattr(one[2][1].weight, "grad", torch.zeros(2, 4)),
    "attribute of a parameter": lambda one: setattr(one[2][1].weight, "rows", 1),
    "module in the place of another": lambda one: one.__setitem__(1, nn.Tanh()),
    "modules that change places": lambda one: one._modules.update({"0": one[1], "1": one[0]}),
    "another module": lambda one: one[2].append(nn.ReLU()),
    "kind of a module": lambda one: setattr(one[1], "__class__", nn.Tanh),
    "another table": lambda one: setattr(one[1], "_parameters", {"a": nn.Parameter(torch.zeros(1))}),
    "number in a table": lambda one: one[3].ranks.update(default=16),
    "name in a table": lambda one: one[3].ranks.update(other=16),
    "first in a list": lambda one: one[3].merged.append("default"),
    "more in a list": lambda one: one[3].active.append("other"),
    "another in a list": lambda one: one[3].active.__setitem__(0, "other"),
    "inner table": lambda one: one[3].nested["given"].update(device=torch.device("meta")),
    "inner list": lambda one: one[3].nested["given"]["layers"][1].append(4),
    "offset in memory": lambda one: setattr(one[2][1].bias, "data", torch.zeros(3)[1:]),
    "larger memory": lambda one: one[2][1].bias.untyped_storage().resize_(64),
    "shared memory": lambda one: setattr(one[2][0].bias, "data", one[2][0].weight.data),
    "fewer numbers": lambda one: setattr(one[2][1].bias, "data", one[2][1].bias.data[:1]),
    "strides": lambda one: setattr(one[2][1].weight, "data", torch.zeros(4, 2).T),
    "attribute of a table of hooks": lambda one: setattr(one[1]._forward_hooks, "rows", 1),
    "a tensor in a table": lambda one: one[3].ranks.update(default=torch.zeros(2)),
    "an equal table": lambda one: setattr(one[2], "_modules", OrderedDict(a=nn.ReLU())),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_at_a_glance(name: str) -> None:
    one, loss = model(), nn.CrossEntropyLoss()
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    assert memory._glance is not None
    assert memory._glance.is_kept(loss)
    CHANGES[name](one)
    assert not memory._glance.is_kept(loss)
    assert not memory.is_kept(one, loss)


def test_values_of_parameters_may_change() -> None:
    one, loss = model(), nn.CrossEntropyLoss()
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    one[2][1].weight.data.add_(1)
    assert memory.is_kept(one, loss)


def test_another_model_or_loss_is_not_the_same_at_a_glance() -> None:
    one, loss = model(), nn.CrossEntropyLoss()
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    assert memory._glance is not None
    loss.register_forward_hook(lambda *_: None)
    assert not memory._glance.is_kept(loss)
    assert not memory._glance.is_kept(nn.MSELoss())
    other = model()
    other[1].rows = 1
    assert not memory.is_kept(other, nn.CrossEntropyLoss())


class Box:
    """An object that can be written to."""

    def __init__(self, held: object) -> None:
        self.held = held


KEPT: dict[str, tuple[object, Callable[[Any], object]]] = {
    "tensor": (torch.zeros(2), lambda one: one.data.add_(1)),
    "memory of a tensor": (torch.zeros(2), lambda one: one.set_(torch.zeros(4), 1, (2,), (1,))),
    "set": ({1}, lambda one: one.add(2)),
    "bytes": (bytearray(b"a"), lambda one: one.append(1)),
    "array": (np.zeros(2), lambda one: one.fill(1)),
    "object": (Box([1]), lambda one: one.held.append(2)),
    "object in a list": ([Box(1)], lambda one: setattr(one[0], "held", 2)),
    "object in a table in a tuple": (({"a": Box(1)},), lambda one: setattr(one[0]["a"], "held", 2)),
    "iterator": (iter([1, 2]), next),
    "loss of torch in a list": ([nn.CrossEntropyLoss()], lambda one: setattr(one[0], "rows", 1)),
    "kind of a loss in a table": ({"a": nn.MSELoss()}, lambda one: setattr(one["a"], "__class__", nn.L1Loss)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_may_change_and_be_the_same_object_is_walked_through(name: str) -> None:
    one, loss, (held, change) = model(), nn.CrossEntropyLoss(), KEPT[name]
    one[1].held = held = copy.deepcopy(held)
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    assert memory._glance is not None
    assert memory._glance.rest
    assert memory.is_kept(one, loss)
    change(held)
    assert memory._glance.is_kept(loss)
    assert not memory.is_kept(one, loss)


def test_memory_that_a_buffer_shares_with_a_parameter_is_seen() -> None:
    one, loss = model(), nn.CrossEntropyLoss()
    one.register_buffer("weight", one[2][1].weight.detach().clone())
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    assert memory.is_kept(one, loss)
    one.weight.data = one[2][1].weight.data
    assert memory._glance is not None
    assert memory._glance.is_kept(loss)
    assert not memory.is_kept(one, loss)


def test_what_a_loss_holds_is_walked_through() -> None:
    one, loss = model(), nn.CrossEntropyLoss(weight=torch.ones(2))
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    assert memory.is_kept(one, loss)
    assert loss.weight is not None
    loss.weight.data.add_(1)
    assert not memory.is_kept(one, loss)


def test_a_container_that_holds_itself_is_looked_at_once() -> None:
    one, loss, held = model(), nn.CrossEntropyLoss(), list[object]([1])
    held.append(held)
    one[1].held = held
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    assert memory.is_kept(one, loss)
    held[0] = 2
    assert not memory.is_kept(one, loss)


def test_attributes_of_an_empty_ordered_table_in_another_are_seen() -> None:
    one, loss = model(), nn.CrossEntropyLoss()
    one[1].held = {"a": OrderedDict()}
    memory = Memory(one, loss)
    assert memory.is_kept(one, loss)
    assert memory.is_kept(one, loss)
    one[1].held["a"].rows = 1
    assert not memory.is_kept(one, loss)


@pytest.mark.parametrize(
    "name", ["attribute of a table of hooks", "offset in memory", "shared memory", "fewer numbers", "strides"]
)
def test_a_change_before_the_first_glance_is_seen_by_the_walk(name: str) -> None:
    one, loss = model(), nn.CrossEntropyLoss()
    memory = Memory(one, loss)
    CHANGES[name](one)
    assert not memory.is_kept(one, loss)


class Refuses(nn.Parameter):
    """A parameter that refuses to say where it lies."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "storage" in getattr(function, "__name__", ""):
            raise RuntimeError("no memory to be seen here")
        return super().__torch_function__(function, types, args, kwargs or {})


def test_what_cannot_be_looked_at_raises_nothing() -> None:
    one, loss = model(), nn.CrossEntropyLoss()
    one[2][1].bias = Refuses(torch.zeros(2))
    memory = Memory(one, loss)
    for _ in range(3):
        memory.is_kept(one, loss)
    one[1].rows = 1
    assert not memory.is_kept(one, loss)
