"""The ways through the graph of a loss to trained parameters that lead past the modules with rules.

The walk jumps from the outputs of a call to its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from discreet.clipping.capture.call import OTHER_ENGINE, Call
from discreet.clipping.capture.owners import Owner
from discreet.core.errors import UnsupportedModel

Node = Any
"""A node of torch's graph of operations."""


def steps(loss: Tensor, calls: Iterable[Call]) -> Iterator[tuple[Node | None, int, Node]]:
    """Every step of the walk to a node outside of `calls`: the node above it, the place among the inputs of that, and
    the node itself. The loss, and the inputs of calls, have None above them."""
    exits = {(edge.node, edge.output_nr): call for call in calls for edge in call.outputs if edge is not None}
    first = get_gradient_edge(loss)
    todo: list[tuple[Node | None, int, Node, int]] = [(None, 0, first.node, first.output_nr)]
    walked: set[Node] = set()
    left: set[tuple[Node, int]] = set()
    while todo:
        above, place, node, number = todo.pop()
        if (node, number) in exits:
            if (node, number) not in left:
                left.add((node, number))
                todo += [(None, 0, edge.node, edge.output_nr) for edge in exits[node, number].inputs]
            continue
        yield above, place, node
        if node not in walked:
            walked.add(node)
            todo += [(node, i, *edge) for i, edge in enumerate(node.next_functions) if edge[0] is not None]


def check_routes(owners: list[Owner], loss: Tensor, calls: list[Call]) -> None:
    """Refuse a gradient that reaches a trainable parameter without passing through a recorded call.

    Parameters that an open owner holds directly are reached inside of it, so they are allowed.
    """
    names = {key: (owner, local) for owner in owners for key, local in zip(owner.keys, owner.parameters, strict=True)}
    for call in calls:
        if call.owner.open:
            for key in call.owner.keys:
                names.pop(key, None)
    for _, _, node in steps(loss, [call for call in calls if not call.owner.open]):
        _check_node(node, names)


def _check_node(node: Node, names: dict[int, tuple[Owner, str]]) -> None:
    if type(node).__name__ == "CheckpointFunctionBackward":
        raise UnsupportedModel("the model is checkpointed with use_reentrant=True; set use_reentrant=False")
    variable = getattr(node, "variable", None)
    if variable is not None and id(variable) in names:
        owner, local = names[id(variable)]
        name = f"{owner.name}.{local}" if owner.name else local
        raise UnsupportedModel(
            f"parameter {name!r} is used outside the module that holds it, or inside a compiled one; call the "
            f"module that holds it, or one that shares it (layer.weight = other.weight), or {OTHER_ENGINE}"
        )
