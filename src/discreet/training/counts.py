"""Counts on private rows, bought: how many a model predicts right, with Gaussian noise."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import evaluation_mode
from discreet.core.arrays import IntArray
from discreet.core.errors import InputError
from discreet.core.release import ClippedSum, Receipt
from discreet.data import PrivateData
from discreet.mechanism import gaussian_release, grid_for
from discreet.randomness import RoundedSampler, Stream

_AT_ONCE = 1024
_NAME = "correct"


def bought_count(
    model: nn.Module, data: PrivateData, rows: IntArray, receipt: Receipt, stream: Stream, noise: RoundedSampler
) -> float:
    """The noisy number of `rows` whose class the model predicts, as `receipt` paid for it.

    A row changes the count by at most 1: each is predicted alone, so its prediction depends on no other row. The count
    is whole, and so on any grid that the noise has; nothing is rounded.
    """
    total = {_NAME: np.array([float(_correct(model, data, rows))])}
    release = gaussian_release(ClippedSum(total, 1.0, grid_for(receipt.release, 1.0)), receipt, stream, noise)
    return float(release.tensors[_NAME][0])


def check_countable(model: nn.Module, data: PrivateData) -> None:
    """Refuse data without class labels, or a model that does not score classes, before anything is charged."""
    inputs, targets = data.fetch(np.zeros(1, np.int64))
    if targets.is_floating_point() or targets.dim() != 1:
        raise InputError("counts of correct predictions need a class index per row; leave out counts")
    if _scores(model, inputs).dim() != 2:
        raise InputError("counts of correct predictions need a model that scores classes, (rows, classes)")


def _correct(model: nn.Module, data: PrivateData, rows: IntArray) -> int:
    right = 0
    for start in range(0, len(rows), _AT_ONCE):
        inputs, targets = data.fetch(rows[start : start + _AT_ONCE])
        for i in range(len(targets)):
            right += int(_scores(model, inputs[i : i + 1].clone()).argmax(1).item() == targets[i].item())
    return right


def _scores(model: nn.Module, inputs: Tensor) -> Tensor:
    device = next(model.parameters()).device
    with torch.no_grad(), evaluation_mode(model):
        found: Tensor = model(inputs.to(device))
    return found
