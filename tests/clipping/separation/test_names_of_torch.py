"""Which module a class or a function says that it is of proves nothing: anybody may set that."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mixing_modules import HIDDEN, Two
from mixing_runs import ROWS, training
from torch import Tensor, nn
from torch.utils import _pytree

from discreet import UnsupportedModel
from discreet.clipping.capture.owners import rule_of
from discreet.clipping.losses import holds_nothing, is_of_torch
from discreet.clipping.rules import RULES
from discreet.clipping.separation.recording.trees import check_containers
from discreet.clipping.vectorise import own_rule
from discreet.core.imports.origin import is_from


class Asked(nn.Module):
    """A module that adds all rows to each of those that it was given, where it is asked for its weight."""

    __module__ = "torch.nn.modules.linear"

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(HIDDEN))

    def forward(self, h: Tensor) -> Tensor:
        if len(h) == ROWS:
            self.rows = h
        product: Tensor = h @ self.weight
        return product

    def get_parameter(self, target: str) -> nn.Parameter:
        if hasattr(self, "rows"):
            self.rows.data.add_(self.rows.data.sum(0))
        return super().get_parameter(target)


class Behind:
    """A class that Python asks after all of torch's."""

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class AskedBehind(nn.Linear, Behind):
    """A layer that is asked there."""

    def __init__(self) -> None:
        super().__init__(HIDDEN, HIDDEN)


class Lying(type):
    """A type that hides what its classes hold."""

    def __getattribute__(cls, name: str) -> Any:
        return {} if name == "__dict__" else super().__getattribute__(name)


class AskedHidden(Asked, metaclass=Lying):
    """One whose class says that it holds nothing."""


class Holds(Two):
    """A model with such a module."""

    kind: type[nn.Module] = Asked

    def __init__(self) -> None:
        super().__init__()
        self.own = self.kind()

    def between(self, h: Tensor) -> Tensor:
        found: Tensor = self.own(h)
        return found


@pytest.mark.parametrize("kind", [Asked, AskedBehind, AskedHidden], ids=lambda kind: kind.__name__)
def test_methods_of_a_class_that_calls_itself_torchs_are_refused(kind: type[nn.Module], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"has a method '(get_parameter|__getattribute__)' of its own"):
        training(type("Model", (Holds,), {"kind": kind}), "bookkeeping", tmp_path)


class Box:
    """A container that says that torch takes it apart."""

    __module__ = "torch"

    def __init__(self, held: Any) -> None:
        self.held = held


def _apart(box: Box) -> tuple[list[Any], None]:
    return [box.held], None


class Calls:
    """An object that says that it calls a function of torch, as `functools.partial` does."""

    func = staticmethod(_pytree._list_flatten)

    def __call__(self, box: Box) -> tuple[list[Any], None]:
        return _apart(box)


def named(name: str, function: Any) -> Any:
    function.__module__ = name
    return function


@pytest.mark.parametrize("apart", [named("torch", _apart), partial(_apart), Calls()])
def test_containers_that_call_themselves_torchs_are_refused(apart: Any) -> None:
    _pytree.register_pytree_node(Box, apart, named("torch", lambda parts, _: Box(next(iter(parts)))))
    try:
        with pytest.raises(UnsupportedModel, match="which code of its own takes apart"):
            check_containers(Box(torch.ones(2)))
    finally:
        _pytree._deregister_pytree_node(Box)


class Loss(nn.MSELoss):
    """A loss that remembers, and says that it is torch's."""

    __module__ = "torch.nn.modules.loss"


def test_a_loss_that_calls_itself_torchs_is_none() -> None:
    assert is_of_torch(nn.MSELoss())
    assert holds_nothing(nn.MSELoss())
    assert not is_of_torch(Loss())
    assert not holds_nothing(Loss())


def test_a_vmap_rule_that_calls_itself_torchs_is_found() -> None:
    def mixes(*_: Any) -> Any:
        return None

    assert own_rule() is None
    made = type("Own", (torch.autograd.Function,), {"vmap": staticmethod(mixes), "__module__": "torch.own"})
    assert own_rule() == made.__qualname__
    del made
    gc.collect()
    assert own_rule() is None


class Asks:
    """A descriptor that Python asks for what an object does not hold."""

    def __get__(self, one: object, kind: object = None) -> float:
        return 1.0


class Without(nn.LayerNorm):
    """A norm without a number that it reads."""

    eps = Asks()  # type: ignore[assignment]

    def __init__(self, features: int) -> None:
        super().__init__(features)
        del vars(self)["eps"]


class HasEps:
    """A class that computes it."""

    eps = property(lambda _: 1.0, lambda _, value: None)


class FromBehind(nn.LayerNorm, HasEps):  # type: ignore[misc]
    """A norm that has it from there."""


class Shape(tuple[int, ...]):
    """Lengths with code of their own."""


def with_shape() -> nn.LayerNorm:
    norm = nn.LayerNorm(HIDDEN)
    norm.normalized_shape = Shape((HIDDEN,))
    return norm


def test_layers_that_compute_what_they_read_have_no_rule() -> None:
    assert rule_of(nn.LayerNorm(HIDDEN)) is not None
    assert rule_of(Without(HIDDEN)) is None
    assert rule_of(FromBehind(HIDDEN)) is None
    assert rule_of(with_shape()) is None


class Other(nn.LayerNorm):
    """A norm with another number than its base class."""

    eps = property(lambda _: 1.0, lambda _, value: None)  # type: ignore[assignment]


class Becomes(Two):
    """One whose norm becomes another one when it is called, and then is what it was."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)

    def between(self, h: Tensor) -> Tensor:
        self.norm.__class__ = Other
        found: Tensor = self.norm(h)
        self.norm.__class__ = nn.LayerNorm
        return found


class GetsShape(Becomes):
    """One whose norm is called with lengths that have code of their own."""

    def between(self, h: Tensor) -> Tensor:
        self.norm.normalized_shape = Shape((HIDDEN,))
        found: Tensor = self.norm(h)
        self.norm.normalized_shape = (HIDDEN,)
        return found


@pytest.mark.parametrize("kind", [Becomes, GetsShape])
def test_a_layer_that_becomes_another_one_is_refused(kind: type[nn.Module], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"'norm'.*has become another layer while the model ran"):
        training(kind, "bookkeeping", tmp_path)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(np.prod((2, 2)), 3),  # type: ignore[arg-type]
        nn.Embedding(np.int64(4), 3),  # type: ignore[arg-type]
        nn.LayerNorm(4, eps=np.float64(1e-5)),
        nn.Conv2d(1, np.int32(2), 3),  # type: ignore[arg-type]
    ],
)
def test_layers_with_sizes_of_numpy_keep_their_rule(layer: nn.Module) -> None:
    assert rule_of(layer) is RULES[type(layer)]


def test_what_torch_holds_is_from_torch() -> None:
    kinds = [one for one in vars(nn).values() if isinstance(one, type)]
    assert all(is_from(one, "torch") for one in kinds)
    assert is_from(_pytree._list_flatten, "torch")
    assert is_from(partial(_pytree._list_unflatten, context=None), "torch")
    assert not is_from(_pytree._list_flatten, "transformers")
    assert not is_from(Asked, "torch")
