"""Plain modules are compared at a glance: every change that a walk through them sees is seen so as well."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import pytest
import torch
from torch import nn

from discreet.clipping.separation.memory import Memory


def model() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 2)))


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


@pytest.mark.parametrize(
    "held",
    [[torch.zeros(1)], [1], {"a": 1}, {1}, bytearray(b"a"), object(), iter([1]), (1, [2])],
    ids=lambda one: type(one).__name__,
)
def test_what_may_change_is_walked_through(held: object) -> None:
    one = model()
    one[1].held = held
    memory = Memory(one, nn.CrossEntropyLoss())
    memory.is_kept(one, nn.CrossEntropyLoss())
    assert memory._glance is None
