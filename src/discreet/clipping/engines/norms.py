"""The norms of examples' gradients in one backward pass, in which nothing is held longer than its rule needs it.

Calls of modules that share parameters are measured together, once the pass has been at all of them; all other calls
as soon as it has been at what they returned.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.capture.backward import visit
from discreet.clipping.capture.capture import Call, record
from discreet.clipping.clip import Clip
from discreet.clipping.engines.bookkeeping import Share, measured
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Units


def example_squares(
    model: nn.Module,
    criterion: Criterion,
    inputs: Tensor,
    targets: Tensor,
    clip: Clip,
    units: Units | None = None,
    use: Callable[[dict[str, list[Share]]], None] | None = None,
) -> dict[str, Tensor]:
    """The squared L2 norms of each example's (or unit's) gradient by parameter, in the scales of the clip unless it is
    a box: float64, shape (examples,).

    `use` is given what was measured, by parameter, before it is let go. Errors are those of `capture.record`.
    """
    parameters = private_parameters(model)
    device = next(iter(parameters.values())).device
    none = torch.zeros(len(inputs) if units is None else len(units), dtype=torch.float64, device=device)
    squares = dict.fromkeys(parameters, none)

    def measure(group: list[Call]) -> None:
        with torch.no_grad():
            shares, found = measured(parameters, group, units, clip)
            squares.update({name: part.to(device) for name, part in found.items()})
            if use is not None:
                use(shares)

    loss, calls = record(model, criterion, inputs, targets)
    if calls:
        visit(loss, calls, measure)
    return squares
