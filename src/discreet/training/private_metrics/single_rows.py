"""What a model says of private rows, each predicted alone, so that it depends on no other row."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from discreet.clipping import evaluation_mode
from discreet.core.arrays import IntArray
from discreet.data import PrivateData

_AT_ONCE = 1024


def predicted(model: nn.Module, data: PrivateData, rows: IntArray) -> Iterator[tuple[Tensor, Tensor]]:
    """(output, target) of each row in turn, with a batch axis of length 1, in evaluation mode and without gradients."""
    with evaluation_mode(model):
        for inputs, target in one_by_one(model, data, rows):
            with torch.no_grad():
                output = model(inputs)
            yield output, target


def one_by_one(model: nn.Module, data: PrivateData, rows: IntArray) -> Iterator[tuple[Tensor, Tensor]]:
    """(inputs, target) of each row in turn, with a batch axis of length 1, where the model is."""
    device = next(model.parameters()).device
    for start in range(0, len(rows), _AT_ONCE):
        inputs, targets = data.fetch(rows[start : start + _AT_ONCE])
        for i in range(len(targets)):
            yield inputs[i : i + 1].clone().to(device), targets[i : i + 1].to(device)
