"""The loss of each row under a model, computed as if the row were alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, evaluation_mode
from discreet.clipping.losses import each_loss
from discreet.core.array_types import Array

_AT_ONCE = 1024


def losses_of(model: nn.Module, inputs: Tensor, targets: Tensor, criterion: Criterion) -> Array:
    """The loss of each row, float64, shape (rows,). The model answers in its own precision; its outputs are compared in
    double, so that losses near 0 can be told apart."""
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    wanted = targets.double() if targets.is_floating_point() else targets
    found = []
    with torch.no_grad(), evaluation_mode(model):
        for start in range(0, len(targets), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            outputs = model(inputs[part].to(device)).double().cpu()
            found.append(each_loss(criterion, outputs, wanted[part]))
    return torch.cat(found).numpy()
