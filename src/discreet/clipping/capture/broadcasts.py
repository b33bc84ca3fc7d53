"""Parameters that are broadcast over the examples wherever they are used, in the graph of a loss.

A class holds them itself, or they are the table of an embedding whose tokens all examples have in common, such as the
numbers of places. What is broadcast may be a function of the parameter alone: a view of it, rows picked from it, its
exponential.

The names of nodes say what operators do: expand, add, subtract, multiply, normalise. What is shorter along axis 0 they
broadcast. That the examples lie there, and that no row of what they return belongs to another example, is for a proof
to show: in it such a parameter counts as a part of each example (`separation.of_each`), and it says which operators
broadcast. Before there is one, an axis 0 as long as the batch is taken for that of the examples, which it may be by
chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from discreet.clipping.capture.call import Call, versions_of
from discreet.clipping.capture.functions import (
    Step,
    below,
    is_for_several,
    is_function,
    is_given_once,
    keeps_nothing,
    shape_of,
    steps_above,
)
from discreet.clipping.capture.owners import Owner
from discreet.clipping.capture.routes import Node
from discreet.clipping.named_tensors import named_tensors
from discreet.clipping.rules import HeldDirectly
from discreet.clipping.rules.broadcast import Broadcast, Factor, Normalised, Use
from discreet.clipping.rules.embedding import EmbeddingRule
from discreet.clipping.separation.recording import recorder
from discreet.clipping.separation.recording.program import BroadcastParameter, Ref

_PARAMETER = "torch::autograd::AccumulateGrad"


class _Found(NamedTuple):
    """A use of a parameter, and where the gradient of what it returns will be."""

    use: Use
    edge: GradientEdge


def broadcasts_apart(model: nn.Module, owners: list[Owner], loss: Tensor, calls: list[Call], rows: int) -> list[Call]:
    """The calls, with one for each parameter that is always broadcast over the examples (`rows` of them). The module
    that holds it need not run again for it, nor for a parameter that the loss does not depend on."""
    held = _held_alone(owners, calls, rows)
    if not held:
        return calls
    names = named_tensors(model).parameters
    refs = recorder.traced({id(one): name for name, one in names.items() if id(one) in held})
    found, others = _found(steps_above(held, loss), refs, rows)
    recorder.broadcasts([BroadcastParameter(refs[key], tuple(uses)) for key, uses in found.items()])
    left: list[Call] = []
    for call in calls:
        if not held.keys().isdisjoint(call.owner.keys):
            rest = {
                name: one for name, one in call.owner.parameters.items() if id(one) in others or id(one) not in held
            }
            if not rest:
                recorder.forgets(call.span, call.owner.name)
                continue
            call.owner = replace(call.owner, parameters=rest)
        left.append(call)
    return left + [_call(held[key], [*uses.values()]) for key, uses in found.items()]


def _call(owner: Owner, found: list[_Found]) -> Call:
    uses, edges = zip(*found, strict=True)
    return Call(owner, uses, {}, versions_of(uses, {}), inputs=[], outputs=[*edges], shapes=[])


def _held_alone(owners: list[Owner], calls: list[Call], rows: int) -> dict[int, Owner]:
    """The parameters that one class alone holds itself, or one embedding, by id, each with an owner of its own."""
    times = Counter(key for owner in owners for key in owner.keys)
    looked_up = {call.owner.name for call in calls if not _is_one_row(call, rows)}
    return {
        id(one): Owner(owner.name, owner.module, Broadcast, {name: one}, open=True)
        for owner in owners
        if owner.rule is HeldDirectly or (owner.rule is EmbeddingRule and owner.name in looked_up)
        for name, one in owner.parameters.items()
        if times[id(one)] == 1
    }


def _is_one_row(call: Call, rows: int) -> bool:
    """Whether a call has tokens of shape (1, ...) in a batch of one: without a proof, they may be that example's."""
    return rows == 1 and call.shapes[0][:1] == (1,) and not recorder.is_followed()


def _found(
    above: Mapping[int, list[Step]], refs: Mapping[int, Ref], rows: int
) -> tuple[dict[int, dict[int, _Found]], set[int]]:
    """The uses of each of the parameters that are broadcast wherever they are used, inside modules with rules too, by
    the numbers of the steps; and those that are used otherwise as well. `above`: the steps, and `refs`: the origins, by
    ids; a parameter without an origin is not followed."""
    found: dict[int, dict[int, _Found]] = {}
    others: set[int] = set()
    for key, steps in above.items():
        proved = recorder.proved_uses(refs[key]) if key in refs else ()
        numbers = [i for i, one in enumerate(steps) if _seems_to_broadcast(one, rows)] if proved is None else proved
        uses = _uses(steps, {*numbers}, rows)
        if uses is None:
            others.add(key)
        else:
            found[key] = uses
    return found, others


def _uses(steps: list[Step], numbers: set[int], rows: int) -> dict[int, _Found] | None:
    """The uses of a parameter by those steps that broadcast it; None if it is used otherwise as well. What is made of
    the examples' copies is not the parameter's alone."""
    found: dict[int, _Found] = {}
    copied: set[Node] = set()
    for number, step in enumerate(steps):
        if step.below in copied:
            copied.add(step.node)
        elif number in numbers:
            use = _use(step, rows)
            if use is None:
                return None
            found[number] = use
            copied.add(step.node)
        elif step.node is None or not is_function(step.node):
            return None
    return found


def _seems_to_broadcast(step: Step, rows: int) -> bool:
    """Whether, by the shapes, a step repeats a tensor for every example. Where a parameter meets another one, their
    length is that of the batch by chance."""
    if step.node is None or not _broadcasts(step, rows):
        return False
    others = [one for i, (one, _) in enumerate(step.node.next_functions) if i != step.place]
    return len(others) != 1 or others[0] is None or not _is_parameter(others[0])


def _is_parameter(node: Node) -> bool:
    """Whether a node of the graph is a parameter, or a view of one."""
    while is_function(node) and keeps_nothing(node):
        node = below(node)
    return bool(node.name() == _PARAMETER)


def _broadcasts(step: Step, rows: int) -> bool:
    """Whether a step is that of a known operator which repeats a tensor along axis 0, for each of `rows` examples."""
    if step.node is None or step.node.name() not in _FACTORS:
        return False
    before, after = shape_of(step.below), shape_of(step.node)
    return len(after) > 0 and after[0] == rows and (len(before) < len(after) or before[0] == 1)


def _use(step: Step, rows: int) -> _Found | None:
    """The use of a parameter by a step that broadcasts it; None if the gradients of the examples are not at hand."""
    node, place, given = step
    if node is None or not _broadcasts(step, rows):
        return None
    factor, origin = _FACTORS[node.name()](node, place), _origin(given)
    if factor is None or any(one._input_metadata[0].dtype.is_complex for one in (node, given, origin)):
        return None
    if not is_for_several(given, origin):
        return None
    ends = None if given is origin else (GradientEdge(given, 0), GradientEdge(origin, 0))
    return _Found(Use(shape_of(given), factor, ends), GradientEdge(node, 0))


def _origin(node: Node) -> Node:
    """The parameter of which a node is a function."""
    while is_function(node):
        node = below(node)
    return node


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
    """A tensor that a node keeps; None where it is given only once."""
    if is_given_once(node, name):
        return None
    kept: Tensor | None = getattr(node, f"_saved_{name}")
    return kept if kept is None else kept.detach()


def _of_choice(node: Node, place: int) -> Tensor | None:
    """For `torch.where`: booleans that say which numbers come from the input at this place."""
    condition = _saved(node, "condition")
    return condition if condition is None else condition != 0 if place == 0 else condition == 0


_FACTORS: dict[str, Callable[[Node, int], Factor | None]] = {
    "ExpandBackward0": lambda node, place: 1,
    "AddBackward0": _of_sum,
    "SubBackward0": _of_difference,
    "MulBackward0": _of_product,
    "AddcmulBackward0": _of_sum_with_product,
    "NativeLayerNormBackward0": _of_layer_norm,
    "WhereBackward0": _of_choice,
}
"""By the name of the node: what the gradient of the parameter at a place among its inputs is, as a multiple of that of
what the operator returns; None if it is no known multiple."""
