"""The norms of examples' gradients in one backward pass that holds no tensor longer than its rule needs it.

A call of a module is measured as soon as the pass has the gradients of its outputs. Calls of modules that share
parameters are measured together, once the pass has reached all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.capture.backward import visit
from discreet.clipping.capture.call import Call
from discreet.clipping.capture.capture import record
from discreet.clipping.clip import Clip
from discreet.clipping.engines.bookkeeping import Share, measured
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Chunk


def example_squares(
    model: nn.Module,
    criterion: Criterion,
    chunk: Chunk,
    clip: Clip,
    use: Callable[[dict[str, list[Share]]], None] | None = None,
) -> dict[str, Tensor]:
    """The squared L2 norms of each example's (or unit's) gradient by parameter, in the scales of the clip unless it is
    a box: float64, shape (examples,).

    `use` gets the rules that measured, by parameter, before they are freed. Errors are those of `capture.record`.
    """
    parameters = private_parameters(model)
    device = next(iter(parameters.values())).device
    none = torch.zeros(chunk.size, dtype=torch.float64, device=device)
    squares = dict.fromkeys(parameters, none)
    names = {id(parameter): name for name, parameter in parameters.items()}

    def measure(group: list[Call]) -> None:
        with torch.no_grad():
            shares, found = measured(names, group, chunk.units, clip)
            squares.update({name: part.to(device) for name, part in found.items()})
            if use is not None:
                use(shares)

    loss, calls = record(model, criterion, chunk.inputs, chunk.targets)
    if calls:
        visit(loss, calls, measure)
    return squares
