"""Metrics on data that is declared public. Nothing here may be called with private data."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, evaluation_mode

_AT_ONCE = 1024


def evaluate(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> dict[str, float]:
    """Mean loss per example, and accuracy where targets are class indices, with the model in evaluation mode."""
    device = next(model.parameters()).device
    loss, correct = 0.0, 0
    classes = not targets.is_floating_point() and targets.dim() == 1
    with torch.no_grad(), evaluation_mode(model):
        for x, y in zip(torch.split(inputs, _AT_ONCE), torch.split(targets, _AT_ONCE), strict=True):
            x, y = x.to(device), y.to(device)
            output = model(x)
            loss += sum(float(criterion(output[i : i + 1], y[i : i + 1]).sum()) for i in range(len(y)))
            if classes:
                correct += int((output.argmax(1) == y).sum())
    metrics = {"loss": loss / len(targets)}
    if classes:
        metrics["accuracy"] = correct / len(targets)
    return metrics
