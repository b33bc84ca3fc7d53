"""Metrics on data that is declared public. Nothing here may be called with private data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from discreet.clipping import Criterion, evaluation_mode

_AT_ONCE = 1024


def evaluate(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> dict[str, float]:
    """Mean loss per example, and accuracy where targets are class indices, with the model in evaluation mode."""
    device = next(model.parameters()).device
    loss, correct, classes = 0.0, 0, False
    with torch.no_grad(), evaluation_mode(model):
        for x, y in zip(torch.split(inputs, _AT_ONCE), torch.split(targets, _AT_ONCE), strict=True):
            x, y = x.to(device), y.to(device)
            output = model(x)
            classes = isinstance(output, Tensor) and output.dim() > 1 and not y.is_floating_point() and y.dim() == 1
            for i in range(len(y)):
                loss += float(criterion(_row(output, i), y[i : i + 1]).sum())
            if classes:
                correct += int((output.argmax(1) == y).sum())
    metrics = {"loss": loss / len(targets)}
    if classes:
        metrics["accuracy"] = correct / len(targets)
    return metrics


def _row(output: Any, i: int) -> Any:
    """What the model returned for example i, as a batch of one."""
    if isinstance(output, Tensor):
        return output[i : i + 1]
    return tree_map_only(Tensor, lambda part: part[i : i + 1], output)
