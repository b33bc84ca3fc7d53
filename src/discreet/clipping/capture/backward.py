"""The backward pass to the outputs of owners; each call is handed over as soon as its gradients are known.

After that only the receiver may keep tensors of a call, so parts of the model reuse the same memory one after another.
Calls of modules that share parameters are handed over together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils.hooks import RemovableHandle

from discreet.clipping.capture.call import Call
from discreet.clipping.separation.recording import recorder
from discreet.core.errors import UnsupportedModel

_Node = Any
"""A node of torch's graph of operations."""


def visit(loss: Tensor, calls: list[Call], ready: Callable[[list[Call]], None]) -> None:
    """Go back from the loss; call `ready` once for every group of calls whose gradients are known, then clear them.

    Calls on which the loss does not depend are left out. No gradient of a parameter is computed. `UnsupportedModel` if
    the backward pass does not reach a module on which the loss depends.
    """
    reached, lowest = _places(loss, calls)
    groups = [_Group(group, reached) for group in _groups(calls)]
    waiting: dict[_Node, list[_Group]] = {}
    for group in groups:
        for node in group.awaited:
            waiting.setdefault(node, []).append(group)

    def arrived(node: _Node, gradients: tuple[Tensor | None, ...]) -> None:
        with recorder.aside():
            for group in waiting[node]:
                group.take(node, gradients)
                if not group.awaited:
                    group.hand_over(ready)

    edges = list({edge: None for group in groups for edge in group.edges() if edge.node in lowest})
    handles: list[RemovableHandle] = []
    try:
        for node in waiting:
            if node not in lowest:
                handles.append(node.register_prehook(partial(arrived, node)))
        watch = recorder.backward()
        start = None if watch is recorder.NOTHING else torch.ones_like(loss)  # which must not be recorded
        outputs = (get_gradient_edge(loss),)  # for tensors, the call itself would be intercepted, and nothing inside
        with watch:
            found = torch.autograd.grad(outputs, edges, start, allow_unused=True) if edges else ()
    finally:
        for handle in handles:
            handle.remove()
    numbered = {(edge.node, edge.output_nr): part for edge, part in zip(edges, found, strict=True)}
    for node in lowest:
        last = max(number for other, number in numbered if other is node)
        arrived(node, tuple(numbered.get((node, i)) for i in range(last + 1)))
    if any(group.awaited for group in groups):
        raise UnsupportedModel("the backward pass left out a module that the loss depends on; use engine='vmap'")


class _Group:
    """Calls that are handed over together. `awaited`: nodes of their outputs that the pass has not reached yet."""

    def __init__(self, calls: list[Call], reached: set[_Node]) -> None:
        self.calls = calls
        for call in calls:
            call.gradients = (None,) * len(call.outputs)
        self.awaited = {edge.node for edge in self.edges() if edge.node in reached}

    def edges(self) -> Iterator[GradientEdge]:
        return (edge for call in self.calls for edge in call.outputs if edge is not None)

    def take(self, node: _Node, gradients: tuple[Tensor | None, ...]) -> None:
        """Note the gradients of the outputs of `node`."""
        self.awaited.discard(node)
        for call in self.calls:
            call.gradients = tuple(
                gradients[edge.output_nr] if edge is not None and edge.node is node else known
                for edge, known in zip(call.outputs, call.gradients, strict=True)
            )

    def hand_over(self, ready: Callable[[list[Call]], None]) -> None:
        calls = [call for call in self.calls if any(gradient is not None for gradient in call.gradients)]
        if calls:
            ready(calls)
        for call in self.calls:
            call.args, call.kwargs, call.gradients = (), {}, ()


def _groups(calls: list[Call]) -> list[list[Call]]:
    """The calls in groups: calls that share a parameter, directly or through other calls, are in one group."""
    every = [key for call in calls for key in call.owner.keys]
    if len({*every}) == len(every):
        return [[call] for call in calls]
    group_of: dict[int, list[Call]] = {}
    for call in calls:
        keys = call.owner.keys
        related = {id(group): group for group in map(group_of.get, keys) if group is not None}
        merged = [*(one for group in related.values() for one in group), call]
        for one in merged:
            for key in one.owner.keys:
                group_of[key] = merged
    return list({id(group): group for group in group_of.values()}.values())


def _places(loss: Tensor, calls: list[Call]) -> tuple[set[_Node], set[_Node]]:
    """Among the nodes that made the outputs of calls: those on which the loss depends, and the lowest of these, with no
    such node below them. A backward pass to the lowest nodes reaches all of them."""
    made = {edge.node for call in calls for edge in call.outputs if edge is not None}
    below: dict[_Node, bool] = {}
    todo: list[tuple[_Node, list[_Node] | None]] = [(get_gradient_edge(loss).node, None)]
    while todo:
        node, following = todo.pop()
        if following is not None:  # all nodes below it have been visited
            below[node] = any(one in made or below[one] for one in following)
        elif node not in below:
            below[node] = False
            following = [one for one, _ in node.next_functions if one is not None]
            todo.append((node, following))
            todo += [(one, None) for one in following if one not in below]
    reached = made & below.keys()
    return reached, {node for node in reached if not below[node]}
