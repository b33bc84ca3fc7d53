"""Functions of one parameter alone, in the graph of a loss: what is made of it before it meets anything else."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils import checkpoint

from discreet.clipping.capture.routes import Node, steps

_WRITTEN = "torch::autograd::CopySlices"
"""The node of a tensor to a part of which was written."""

_RAW = "_raw_saved_"
"""The beginning of torch's names for the tensors that a node saved."""


class Step(NamedTuple):
    """A step from a function of one parameter, `below`, to a node that takes it as its input number `place`; the node
    is None where the function is the loss itself."""

    node: Node | None
    place: int
    below: Node


def steps_above(parameters: Collection[int], loss: Tensor) -> dict[int, list[Step]]:
    """The steps from each parameter, and from what is made of it alone, by the ids of the parameters.

    They are in the order in which the nodes were made, so that the number of a step is the same in every pass that runs
    the same operators, however many examples there are.
    """
    roots: dict[Node, Node] = {}
    found: dict[int, list[Step]] = {}
    for node, place, below in steps(loss, ()):
        key = id(getattr(_root(below, roots), "variable", None))
        if key in parameters:
            found.setdefault(key, []).append(Step(node, place, below))
    for some in found.values():
        some.sort(key=lambda one: (math.inf if one.node is None else one.node._sequence_nr(), one.place))
    return found


def _root(node: Node, roots: dict[Node, Node]) -> Node:
    """The tensor that a node is a function of, or the node itself. `roots`: those found before."""
    passed = []
    while node not in roots and is_function(node):
        passed.append(node)
        node = below(node)
    root = roots.setdefault(node, node)
    roots.update(dict.fromkeys(passed, root))
    return root


def is_function(node: Node) -> bool:
    """Whether a node of autograd's graph has one output, and passes a gradient to one input."""
    one_to_one = len(node._input_metadata) == 1 == sum(one is not None for one, _ in node.next_functions)
    return one_to_one and not isinstance(node, BackwardCFunction) and node.name() != _WRITTEN


def below(node: Node) -> Node:
    """The node of the one tensor of which `node` is a function."""
    return next(one for one, _ in node.next_functions if one is not None)


def shape_of(node: Node) -> torch.Size:
    """The shape of the first tensor that a node made."""
    shape: torch.Size = node._input_metadata[0].shape
    return shape


def keeps_nothing(node: Node) -> bool:
    """Whether a node saves no tensor for the backward pass, as views and conversions of types do not."""
    return not _kept_by(node)


def is_for_several(node: Node, root: Node) -> bool:
    """Whether autograd can go back from `node` to `root` for several examples at once, and more than once."""
    while node is not root:
        if getattr(node, "_saved_sparse", False) or any(is_given_once(node, name) for name in _kept_by(node)):
            return False
        node = below(node)
    return True


def is_given_once(node: Node, name: str) -> bool:
    """Whether what a node saved is under a checkpoint, which gives it out only once. True where torch does not tell."""
    raw = getattr(node, f"{_RAW}{name}")
    hooks = [getattr(one, "unpack_hook", checkpoint.checkpoint) for one in (raw if isinstance(raw, tuple) else (raw,))]
    return any(hook is not None and hook.__module__ == checkpoint.__name__ for hook in hooks)


def _kept_by(node: Node) -> list[str]:
    return [name.removeprefix(_RAW) for name in dir(node) if name.startswith(_RAW)]
