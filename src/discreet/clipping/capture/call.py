"""A call of a module that owns trained parameters, as it is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.utils._pytree import tree_leaves

from discreet.clipping.capture.owners import Owner
from discreet.clipping.separation.recording.spans import Span

OTHER_ENGINE = "the engine 'vmap' may run it"


@dataclass(slots=True)
class Call:
    """One call of an owner. `gradients`: of its outputs, in order; None where the loss does not depend on one.

    `entries`: how many entries of each example there are along axis 0, one after the other; above one, where the model
    has made another axis part of that.

    `once`: why the module cannot run again, if its rule would do that; else None. `drew`: nor can it if it drew random
    numbers.
    """

    owner: Owner
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: list[int]
    inputs: list[GradientEdge]
    outputs: list[GradientEdge | None]
    shapes: list[torch.Size]
    gradients: tuple[Tensor | None, ...] = field(default=())
    generator: Tensor | None = None
    span: Span | None = None
    once: str | None = None
    drew: bool = False
    entries: int = 1


def versions_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    """The version counter of each input tensor of a module: how often it was written to."""
    return [leaf._version for leaf in tensors_in((args, kwargs) if kwargs else args)]


def tensors_in(values: object) -> list[Tensor]:
    """The tensors in nested tuples, lists and dictionaries, in order."""
    if isinstance(values, Tensor):
        return [values]
    if type(values) is tuple and all(isinstance(value, Tensor) for value in values):  # the usual case, faster
        return list(values)
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
