"""Parameters that a class holds itself and broadcasts over the examples wherever it uses them, in the graph of a loss.

The names of nodes say what operators do: expand, add, subtract, multiply, normalise. What is shorter along axis 0 they
broadcast. That the examples lie there, and that no row of what they return belongs to another example, is for a proof
to show: in it such a parameter counts as a part of each example (`separation.of_each`). Before there is one, an axis 0
as long as the batch is taken for that of the examples, which it may be by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.utils import checkpoint

from discreet.clipping.capture.call import Call, versions_of
from discreet.clipping.capture.owners import Owner
from discreet.clipping.capture.routes import Node, steps
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.rules import HeldDirectly
from discreet.clipping.rules.broadcast import Broadcast, Factor, Normalised, Use
from discreet.clipping.separation.recording import recorder

_VIEWS = frozenset(
    {
        *("AliasBackward0", "CloneBackward0", "PermuteBackward0", "SelectBackward0", "SliceBackward0"),
        *("SqueezeBackward0", "SqueezeBackward1", "TBackward0", "ToCopyBackward0", "TransposeBackward0"),
        *("UnsafeViewBackward0", "UnsqueezeBackward0", "ViewBackward0"),
    }
)
"""Nodes with one input and one output that keep no tensor: they pick, move or round numbers."""

_SHIFTS = frozenset({"AddBackward0", "SubBackward0"})

_PARAMETER = "torch::autograd::AccumulateGrad"


class _Found(NamedTuple):
    """A use of a parameter, and where the gradient of what it returns will be."""

    use: Use
    edge: GradientEdge


def broadcasts_apart(model: nn.Module, owners: list[Owner], loss: Tensor, calls: list[Call], rows: int) -> list[Call]:
    """The calls, with one for each parameter that is always broadcast over the examples (`rows` of them). The module
    that holds it need not run again for it, nor for a parameter that the loss does not depend on."""
    held = _held_alone(owners)
    if not held:
        return calls
    found, others = _found(held, loss, rows)
    names = {id(one): name for name, one in named_tensors(model).parameters.items()}
    taken = recorder.broadcasts({key: names[key] for key in found})
    again = others | (found.keys() - taken)
    left: list[Call] = []
    for call in calls:
        if call.owner.rule is HeldDirectly:
            rest = {name: one for name, one in call.owner.parameters.items() if id(one) in again or id(one) not in held}
            if not rest:
                recorder.forgets(call.span, call.owner.name)
                continue
            call.owner = replace(call.owner, parameters=rest)
        left.append(call)
    return left + [_call(held[key], uses) for key, uses in found.items() if key in taken]


def _call(owner: Owner, found: list[_Found]) -> Call:
    uses, edges = zip(*found, strict=True)
    return Call(owner, uses, {}, versions_of(uses, {}), inputs=[], outputs=[*edges], shapes=[])


def _held_alone(owners: list[Owner]) -> dict[int, Owner]:
    """The parameters that one class alone holds itself, by id, each with an owner of its own."""
    times = Counter(key for owner in owners for key in owner.keys)
    return {
        id(one): Owner(owner.name, owner.module, Broadcast, {name: one}, open=True)
        for owner in owners
        if owner.rule is HeldDirectly
        for name, one in owner.parameters.items()
        if times[id(one)] == 1
    }


def _found(held: dict[int, Owner], loss: Tensor, rows: int) -> tuple[dict[int, list[_Found]], set[int]]:
    """The uses of each of the parameters that are broadcast wherever they are used, inside modules with rules too, and
    those that are used otherwise as well, by their ids."""
    found: dict[int, list[_Found]] = {}
    others: set[int] = set()
    for node, place, below in steps(loss, ()):
        origin = _origin(below, rows)
        key = id(getattr(origin, "variable", None))
        if key not in held or (node is not None and _is_view(node, rows)):
            continue  # of a view, those who use it are looked at
        one = _use(node, place, below, origin, rows)
        if one is None:
            others.add(key)
        else:
            found.setdefault(key, []).append(one)
    return {key: uses for key, uses in found.items() if key not in others}, others


def _origin(node: Node, rows: int) -> Node:
    """The node of which a view was taken, or the node itself."""
    while _is_view(node, rows):
        node = _below(node)
    return node


def _is_view(node: Node, rows: int) -> bool:
    """Whether a node returns numbers of one tensor alone: picked, moved, rounded, or shifted by constants."""
    if node.name() in _SHIFTS and sum(one is not None for one, _ in node.next_functions) == 1:
        shape = _shape(node)
        return shape == _shape(_below(node)) and not _broadcasts(shape, shape, rows)
    return node.name() in _VIEWS


def _below(view: Node) -> Node:
    return next(one for one, _ in view.next_functions if one is not None)


def _shape(node: Node) -> torch.Size:
    shape: torch.Size = node._input_metadata[0].shape
    return shape


def _broadcasts(before: torch.Size, after: torch.Size, rows: int) -> bool:
    """Whether a tensor of shape `before` is repeated along axis 0 for each of the `rows` examples, to shape `after`."""
    return len(after) > 0 and after[0] == rows and (len(before) < len(after) or before[0] == 1)


def _use(node: Node | None, place: int, below: Node, origin: Node, rows: int) -> _Found | None:
    """The use by a node of the view `below` of a parameter, `origin`, if it broadcasts that over the examples; else
    None."""
    if node is None or node.name() not in _FACTORS or not _broadcasts(_shape(below), _shape(node), rows):
        return None
    others = [one for i, (one, _) in enumerate(node.next_functions) if i != place]
    if len(others) == 1 and others[0] is not None and _origin(others[0], rows).name() == _PARAMETER:
        return None  # it meets another parameter, which is as long as the batch by chance
    factor = _FACTORS[node.name()](node, place)
    if factor is None or any(one._input_metadata[0].dtype.is_complex for one in (node, below, origin)):
        return None
    ends = None if below is origin else (GradientEdge(below, 0), GradientEdge(origin, 0))
    return _Found(Use(_shape(below), factor, ends), GradientEdge(node, 0))


def _of_sum(node: Node, place: int) -> int | None:
    return 1 if node._saved_alpha == 1 else None


def _of_difference(node: Node, place: int) -> int | None:
    return None if node._saved_alpha != 1 else -1 if place else 1


def _of_product(node: Node, place: int) -> Tensor | None:
    return _saved(node, "self" if place else "other")


def _of_sum_with_product(node: Node, place: int) -> Tensor | int | None:
    if node._saved_value != 1:
        return None
    return 1 if place == 0 else _saved(node, "tensor2" if place == 1 else "tensor1")


def _of_layer_norm(node: Node, place: int) -> Normalised | int | None:
    if place == 2:
        return 1
    given, mean, scale = (_saved(node, name) for name in ("input", "result1", "result2"))
    if place == 0 or given is None or mean is None or scale is None:
        return None
    return Normalised(given, mean, scale)


def _saved(node: Node, name: str) -> Tensor | None:
    """A tensor that a node keeps. None under a checkpoint, which gives it only once, and where torch does not tell."""
    hook = getattr(getattr(node, f"_raw_saved_{name}"), "unpack_hook", checkpoint.checkpoint)
    if hook is not None and hook.__module__ == checkpoint.__name__:
        return None
    kept: Tensor | None = getattr(node, f"_saved_{name}")
    return kept if kept is None else kept.detach()


_FACTORS: dict[str, Callable[[Node, int], Factor | None]] = {
    "ExpandBackward0": lambda node, place: 1,
    "AddBackward0": _of_sum,
    "SubBackward0": _of_difference,
    "MulBackward0": _of_product,
    "AddcmulBackward0": _of_sum_with_product,
    "NativeLayerNormBackward0": _of_layer_norm,
}
"""By the name of the node: what the gradient of the parameter at a place among its inputs is, as a multiple of that of
what the operator returns; None if it is no known multiple."""
