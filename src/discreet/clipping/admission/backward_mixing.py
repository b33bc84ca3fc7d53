"""An experiment that shows whether examples influence each other in the backward pass.

A hook on a tensor, or a function with its own backward pass, may scale gradients by something computed from the whole
batch. So examples are exchanged one at a time: for other examples, for far larger ones, and for ones whose loss has a
far larger weight. No other example's gradient may change, at any operation of the backward pass, and neither may its
loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping.admission.example_axes import SHARED, Place, place_of, strayed, times
from discreet.clipping.admission.mixing import moved_weights
from discreet.clipping.capture.repeatable import repeatable
from discreet.clipping.capture.tracing import plain, seeded, steady_slopes
from discreet.clipping.losses import Criterion, each_loss
from discreet.core.errors import CANNOT_TAKE

LOSS = "loss"
"""Stands for a module's name if the losses of other examples change."""

Batch = tuple[Tensor, Tensor]
"""Inputs and targets."""

_LARGE = 1e6
_VARIANTS = (
    (1.0, 1.0, 1.0),
    (_LARGE, 1.0, 1.0),
    (1.0, _LARGE, _LARGE),
    (1e3, 1e3, 1 / _LARGE),
    (1.0, 1.0, math.inf),
)
"""The factors for the inputs, the targets and the weight of an exchanged example, one triple for each row in turn. The
last one makes gradients that are not finite, since a hook may look for such gradients."""


@dataclass(slots=True)
class _Back:
    """The losses, and the gradients given to each operation of the backward pass in order, with the operation's type
    and the nearest module. Of gradients that are not compared there are only the shapes, as tensors without numbers."""

    losses: Tensor
    visits: list[tuple[str, str, list[Tensor | None]]] = field(default_factory=list)

    @property
    def order(self) -> list[str]:
        return [kind for kind, _, _ in self.visits]

    def visit(self, number: int, kind: str) -> list[Tensor | None] | None:
        """The gradients given to the operation with this number; None if its type is not `kind`."""
        found = self.visits[number] if number < len(self.visits) else None
        return found[2] if found is not None and found[0] == kind else None


def mixing_backward(model: nn.Module, criterion: Criterion, batch: Batch, others: Batch) -> str | None:
    """The module near which gradients of other examples first change in the backward pass; `LOSS` if their losses do;
    else None.

    `batch`, `others`: four different random examples each. The model runs in its current mode; its weights and torch's
    generator are restored. Errors are those of model and loss.
    """
    with torch.random.fork_rng(), steady_slopes(model), repeatable():
        found = _mixing(model, criterion, batch, others)
        if found is None:
            with moved_weights(model):
                found = _mixing(model, criterion, others, batch)
    return found


def _mixing(model: nn.Module, criterion: Criterion, batch: Batch, others: Batch) -> str | None:
    size = len(batch[0])
    weights = torch.ones(size, device=batch[0].device)
    shorter = _back(model, criterion, (batch[0][:-1], batch[1][:-1]), weights[:-1])
    usual = _back(model, criterion, batch, weights, shorter)
    # What a hook remembers of a batch of the usual size must not hide from the passes that follow.
    _back(model, criterion, (batch[0][:-1], batch[1][:-1]), weights[:-1], shorter)
    for number, factors in enumerate(_VARIANTS):
        row = number % size
        inputs, targets, heavy = (part.clone() for part in (*batch, weights))
        inputs[row] = times(others[0][row], factors[0])
        targets[row] = times(others[1][row], factors[1])
        heavy[row] = factors[2]
        try:
            changed = _back(model, criterion, (inputs, targets), heavy, shorter)
        except CANNOT_TAKE:
            if number == 0:
                raise
            continue
        if strayed(usual.losses, changed.losses, Place(0, 1), row, size):
            return LOSS
        if not usual.order == shorter.order == changed.order:
            continue  # the operations depend on the values
        for one, short, other in zip(usual.visits, shorter.visits, changed.visits, strict=True):
            if len(one[2]) != len(short[2]):
                continue  # a gradient for each example (unbind, split)
            if any(_strayed(*parts, row, size) for parts in zip(one[2], short[2], other[2], strict=True)):
                return one[1]
    return None


def _strayed(usual: Tensor | None, shorter: Tensor | None, changed: Tensor | None, row: int, size: int) -> bool:
    """Whether the gradient of another example than `row` changed. The gradient of a tensor that all examples share is a
    sum over them and may change; gradients whose shapes differ are not compared, since values may choose places."""
    if usual is None or shorter is None or changed is None or usual.shape != changed.shape:
        return False
    place = place_of(usual, shorter, size, size - 1)
    return place != SHARED and strayed(usual, changed, place, row, size)


def _back(model: nn.Module, criterion: Criterion, batch: Batch, weights: Tensor, shorter: _Back | None = None) -> _Back:
    """Run the backward pass from the weighted sum of the losses to the parameters.

    `shorter`: the pass of a batch with fewer examples. Gradients that have the same shape there are shared by all
    examples, as those of weights are, and are not compared.
    """
    inputs, targets = batch
    made: dict[Any, str] = {}
    handles = []
    for name, module in model.named_modules():

        def note(_: nn.Module, __: object, returned: object, name: str = name) -> None:
            for part in plain(returned):
                if part.grad_fn is not None:
                    made.setdefault(part.grad_fn, name)  # the innermost module comes first

        handles.append(module.register_forward_hook(note))
    try:
        with torch.enable_grad(), seeded(model):
            output = model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    with torch.enable_grad():
        losses = each_loss(criterion, output, targets)
        total = (weights.to(losses) * losses).sum()
    found = _Back(losses.detach())
    if not total.requires_grad:
        return found
    last, hooks = [""], []
    for node in _nodes(losses):

        def arrived(gradients: tuple[Tensor | None, ...], node: Any = node) -> None:
            last[0] = made.get(node, last[0])
            kind, number = type(node).__name__, len(found.visits)
            short = None if shorter is None else shorter.visit(number, kind)
            alike = short if short is not None and len(short) == len(gradients) else [None] * len(gradients)
            parts = zip(gradients, alike, strict=True)
            found.visits.append((kind, last[0], [_kept(*both) for both in parts]))

        hooks.append(node.register_prehook(arrived))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        torch.autograd.grad(total, parameters, allow_unused=True)
    finally:
        for handle in hooks:
            handle.remove()
    return found


def _kept(part: Tensor | None, short: Tensor | None) -> Tensor | None:
    """A copy of a gradient; its shape alone where there is none in the shorter batch, or one of the same shape."""
    if part is None:
        return None
    compared = short is not None and short.shape != part.shape
    return part.detach().clone() if compared else part.detach().to("meta")


def _nodes(made: Tensor) -> list[Any]:
    """All operations in the graph of a tensor."""
    todo: list[Any] = [made.grad_fn]
    seen: dict[Any, None] = {todo[0]: None}
    while todo:
        for node, _ in todo.pop().next_functions:
            if node is not None and node not in seen:
                seen[node] = None
                todo.append(node)
    return list(seen)
