"""The norms of examples' gradients in one backward pass, in which nothing is held longer than its rule needs it.

Calls of modules that share parameters are measured together, once the pass has been at all of them; all other calls
as soon as it has been at what they returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from discreet.clipping.admission import private_parameters
from discreet.clipping.bookkeeping import measured
from discreet.clipping.capture import Call, record
from discreet.clipping.losses import Criterion
from discreet.clipping.policies import Clip
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel

_Node = Any
"""A node of torch's graph of operations."""


def example_squares(
    model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None = None
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The squared L2 norms of each example's (or unit's) gradient by parameter, in the scales of the clip unless it is
    a box; and what the norms of the terms add up to of which a backward pass makes the gradient, or somewhat more,
    without scales: float64, shape (examples,).

    Errors are those of `capture.record`.
    """
    parameters = private_parameters(model)
    device = next(iter(parameters.values())).device
    none = torch.zeros(len(inputs) if units is None else len(units), dtype=torch.float64, device=device)
    squares, reach = dict.fromkeys(parameters, none), dict.fromkeys(parameters, none)

    def measure(group: list[Call]) -> None:
        with torch.no_grad():
            shares, found = measured(parameters, group, units, clip)
            for name, held in shares.items():
                squares[name] = found[name].to(device)
                reach[name] = torch.stack([one.reach(local) for one, local in held]).sum(0).to(device)

    loss, calls = record(model, criterion, inputs, targets)
    if calls:
        _visit(loss, calls, measure)
    return squares, reach


def _visit(loss: Tensor, calls: list[Call], measure: Callable[[list[Call]], None]) -> None:
    """Go back from the loss, call `measure` for every group of calls with the same parameters once their gradients are
    known, and let go of what they hold."""
    reached, lowest = _places(loss, calls)
    groups = [_Group(group, reached) for group in _groups(calls)]
    at_node: dict[_Node, list[_Group]] = {}
    for group in groups:
        for node in group.awaited:
            at_node.setdefault(node, []).append(group)

    def arrived(node: _Node, gradients: tuple[Tensor | None, ...]) -> None:
        for group in at_node[node]:
            group.take(node, gradients)
            if not group.awaited:
                group.finish(measure)

    for node in at_node:
        if node not in lowest:
            node.register_prehook(lambda gradients, node=node: arrived(node, gradients))
    edges = list(dict.fromkeys(edge for group in groups for edge in group.edges() if edge.node in lowest))
    found = torch.autograd.grad(loss, edges, allow_unused=True)
    for node in lowest:
        numbered = {edge.output_nr: part for edge, part in zip(edges, found, strict=True) if edge.node is node}
        arrived(node, tuple(numbered.get(i) for i in range(max(numbered) + 1)))
    if any(group.awaited for group in groups):
        raise UnsupportedModel("the backward pass left out a module that the loss depends on; use engine='bookkeeping'")


class _Group:
    """Calls that are measured together. `awaited`: the nodes that made what they returned and are still to come."""

    def __init__(self, calls: list[Call], reached: set[_Node]) -> None:
        self.calls = calls
        for call in calls:
            call.gradients = (None,) * len(call.outputs)
        self.awaited = {edge.node for edge in self.edges() if edge.node in reached}

    def edges(self) -> Iterator[GradientEdge]:
        return (edge for call in self.calls for edge in call.outputs if edge is not None)

    def take(self, node: _Node, gradients: tuple[Tensor | None, ...]) -> None:
        """Note the gradients of what `node` made."""
        self.awaited.discard(node)
        for call in self.calls:
            call.gradients = tuple(
                gradients[edge.output_nr] if edge is not None and edge.node is node else known
                for edge, known in zip(call.outputs, call.gradients, strict=True)
            )

    def finish(self, measure: Callable[[list[Call]], None]) -> None:
        """Measure, and hold nothing any more."""
        calls = [call for call in self.calls if any(gradient is not None for gradient in call.gradients)]
        if calls:
            measure(calls)
        for call in self.calls:
            call.args, call.kwargs, call.gradients = (), {}, ()


def _groups(calls: list[Call]) -> list[list[Call]]:
    """The calls, those that have a parameter in common together, directly or by way of others."""
    groups: list[tuple[set[int], list[Call]]] = []
    for call in calls:
        owned = {id(call.owner.module.get_parameter(name)) for name in call.owner.names}
        related = [group for group in groups if group[0] & owned]
        groups = [group for group in groups if not group[0] & owned]
        groups.append((owned.union(*(ids for ids, _ in related)), [one for _, of in related for one in of] + [call]))
    return [group for _, group in groups]


def _places(loss: Tensor, calls: list[Call]) -> tuple[set[_Node], set[_Node]]:
    """Of the nodes that made what calls returned: those that the loss depends on, and of these the lowest, below which
    there is no other. The backward pass is at all of them if it is sent to the lowest."""
    made = {edge.node for call in calls for edge in call.outputs if edge is not None}
    below: dict[_Node, bool] = {}
    todo: list[tuple[_Node, bool]] = [(get_gradient_edge(loss).node, False)]
    while todo:
        node, left = todo.pop()
        following = [next_node for next_node, _ in node.next_functions if next_node is not None]
        if left:
            below[node] = any(one in made or below[one] for one in following)
        elif node not in below:
            if getattr(node, "_saved_scale_grad_by_freq", False):
                raise UnsupportedModel(
                    "an embedding with scale_grad_by_freq=True mixes the examples of a batch in the second pass of the "
                    "engine 'ghost'; use engine='bookkeeping'"
                )
            below[node] = False
            todo.append((node, True))
            todo += [(one, False) for one in following if one not in below]
    reached = made & below.keys()
    return reached, {node for node in reached if not below[node]}
