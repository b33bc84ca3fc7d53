"""The norms of examples' gradients in one backward pass, in which nothing is held longer than its rule needs it.

Calls of modules that share parameters are measured together, once the pass has been at all of them; all other calls
as soon as it has been at what they returned.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping.admission import private_parameters
from discreet.clipping.backward import visit
from discreet.clipping.bookkeeping import measured
from discreet.clipping.capture import Call, record
from discreet.clipping.losses import Criterion
from discreet.clipping.policies import Clip
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel


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
        _refuse_mixing(loss)
        visit(loss, calls, measure)
    return squares, reach


def _refuse_mixing(loss: Tensor) -> None:
    """Refuse operations whose backward pass looks at the whole batch."""
    todo: list[Any] = [loss.grad_fn]
    seen: set[Any] = set(todo)
    while todo:
        node = todo.pop()
        if getattr(node, "_saved_scale_grad_by_freq", False):
            raise UnsupportedModel(
                "an embedding with scale_grad_by_freq=True mixes the examples of a batch in the second pass of the "
                "engine 'ghost'; use engine='bookkeeping'"
            )
        following = [one for one, _ in node.next_functions if one is not None and one not in seen]
        todo += following
        seen.update(following)
