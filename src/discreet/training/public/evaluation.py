"""Metrics on data that is declared public. Nothing here may be called with private data."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from discreet.clipping import Criterion, evaluation_mode
from discreet.clipping.losses import each_loss, is_of_torch
from discreet.clipping.valued import ValuedCrossEntropy
from discreet.core.errors import CANNOT_TAKE

_AT_ONCE = 1024

_OUTPUTS, _OUTPUTS_ON_CARDS = 2**28, 2**30
"""Bytes that the outputs of the rows that are run at once may take: scores of every word at every token are large."""

_OF_NUMBERS = nn.MSELoss | nn.L1Loss | nn.SmoothL1Loss | nn.HuberLoss


def evaluate(model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor) -> dict[str, float]:
    """Mean loss per example, with the model in evaluation mode; accuracy where targets are class indices.

    `rmse` is the root of the mean squared error, where the loss is one of torch.nn for numbers, or classes stand for
    numbers (`ValuedCrossEntropy`).
    """
    device = next(model.parameters()).device
    totals = defaultdict[str, float](float)
    with torch.no_grad(), evaluation_mode(model):
        size = rows_at_once(model, inputs[:1].to(device), _AT_ONCE)
        for x, y in zip(torch.split(inputs, size), torch.split(targets, size), strict=True):
            x, y = x.to(device), y.to(device)
            output = model(x)
            totals["loss"] += _loss(criterion, output, y)
            if isinstance(output, Tensor) and output.dim() > 1 and not y.is_floating_point() and y.dim() == 1:
                totals["accuracy"] += int((output.argmax(1) == y).sum())
            error = _error(criterion, output, y)
            if error is not None:
                totals["rmse"] += float((error.double() ** 2).flatten(1).mean(1).sum())
    metrics = {name: total / len(targets) for name, total in totals.items()}
    if "rmse" in metrics:
        metrics["rmse"] **= 0.5
    return metrics


def rows_at_once(model: nn.Module, row: Tensor, most: int) -> int:
    """The number of rows that can be run at once, `most` at most, by what the model returns for one `row`, a batch of
    one; `most` if it fails on it."""
    try:
        outputs = tree_leaves(model(row))
    except CANNOT_TAKE:
        return most
    size = sum(one.numel() * one.element_size() for one in outputs if isinstance(one, Tensor))
    return max(1, min(most, (_OUTPUTS_ON_CARDS if row.is_cuda else _OUTPUTS) // max(1, size)))


def _loss(criterion: Criterion, output: Any, targets: Tensor) -> float:
    """The sum of the losses of the rows. A loss of torch.nn is called for all rows at once; any other one by one, as
    nothing is known of how it treats several."""
    if is_of_torch(criterion):
        return float(each_loss(criterion, output, targets).double().sum())
    return sum(float(criterion(_row(output, i), targets[i : i + 1]).sum()) for i in range(len(targets)))


def _error(criterion: Criterion, output: Any, targets: Tensor) -> Tensor | None:
    """Predicted less true numbers, (n, ...); None where they are not numbers."""
    if isinstance(criterion, ValuedCrossEntropy):
        return (criterion.expected(output) - criterion.values.to(output)[targets]).unsqueeze(1)
    if not isinstance(criterion, _OF_NUMBERS) or not isinstance(output, Tensor) or output.shape != targets.shape:
        return None
    return (output - targets).unsqueeze(1)


def _row(output: Any, i: int) -> Any:
    """The output of the model for example i, as a batch of one."""
    if isinstance(output, Tensor):
        return output[i : i + 1]
    return tree_map_only(Tensor, lambda part: part[i : i + 1], output)
