"""One walk over a model finds what torch's walks find, in their order, also right after the model was changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from discreet.clipping import private_parameters
from discreet.clipping.named_tensors import named_tensors


class Odd(nn.Module):
    """A parameter that is None, one that is held twice, a module that is held twice, and one that is None."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.none, self.gone = nn.Linear(2, 3), None, nn.ReLU()
        self.register_parameter("absent", None)
        self.register_buffer("absent_buffer", None)
        self.norm, self.again = nn.BatchNorm1d(3), self.first
        self.inner = nn.Sequential(nn.Linear(3, 3, bias=False), nn.ModuleDict({"a": nn.BatchNorm1d(3)}))
        self.tied = self.inner[0].weight
        self.register_buffer("shared", self.norm.running_mean)
        self.gone = None  # type: ignore[assignment]


class Renamed(nn.Linear):
    """A module with names of its own, as torch's wrappers have them."""

    def named_parameters(self, *given: Any, **named: Any) -> Iterator[tuple[str, nn.Parameter]]:
        for name, one in super().named_parameters(*given, **named):
            yield f"own_{name}", one


class Lonely(nn.Sequential):
    """A module that hides what is inside it."""

    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[Any]:
        yield prefix, self


CHANGES: dict[str, Callable[[Any], object]] = {
    "nothing": lambda one: None,
    "new module": lambda one: one.inner.append(nn.Linear(3, 1)),
    "another module": lambda one: setattr(one, "first", nn.Linear(2, 2)),
    "another parameter": lambda one: setattr(one.first, "weight", nn.Parameter(torch.zeros(3, 2))),
    "untied": lambda one: setattr(one, "tied", nn.Parameter(torch.zeros(3, 3))),
    "no parameter": lambda one: setattr(one.first, "bias", None),
    "parameter of a later module is a buffer": lambda one: one.first.register_buffer("table", one.norm.weight),
    "parameter of a former module is a buffer": lambda one: one.norm.register_buffer("table", one.first.weight),
    "module with a walk of its own": lambda one: one.inner.append(Lonely(nn.Linear(3, 1), nn.BatchNorm1d(1))),
    "walk of an object inside": lambda one: setattr(one.inner, "named_modules", lambda *given: iter([])),
    "walk of the object": lambda one: setattr(one, "named_modules", lambda *given, **named: iter([("own", one.norm)])),
    "names of the object": lambda one: setattr(
        one, "named_parameters", lambda *given, **named: iter([("own", one.first.weight)])
    ),
    "buffers of the object": lambda one: setattr(one, "named_buffers", lambda *given, **named: iter([])),
    "new buffer": lambda one: one.inner.register_buffer("more", torch.zeros(1)),
    "module removed": lambda one: one.__delattr__("norm"),
    "frozen": lambda one: one.first.weight.requires_grad_(False),
}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return [*one] == [*other] and all(one[name] is other[name] for name in one)


@pytest.mark.parametrize("name", CHANGES)
def test_what_it_finds_is_what_torch_finds(name: str) -> None:
    model = Odd()
    named_tensors(model)
    CHANGES[name](model)
    found = named_tensors(model)
    assert same({**found.parameters}, dict(model.named_parameters()))
    assert same(found.buffers, dict(model.named_buffers()))
    wanted = {name: one for name, one in model.named_parameters() if one.requires_grad}
    assert same({**private_parameters(model)}, {**wanted})


def test_a_model_with_names_of_its_own_is_asked() -> None:
    assert [*named_tensors(Renamed(2, 3)).parameters] == ["own_weight", "own_bias"]
