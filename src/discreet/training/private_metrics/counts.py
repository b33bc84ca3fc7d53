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
from discreet.training.private_metrics.read_only import unwritten
from discreet.training.private_metrics.single_rows import one_by_one, predicted

_NAME = "correct"


def bought_count(
    model: nn.Module, data: PrivateData, rows: IntArray, receipt: Receipt, stream: Stream, noise: RoundedSampler
) -> float:
    """The noisy number of `rows` whose class the model predicts, as `receipt` paid for it.

    A row changes the count by at most 1: each is predicted alone, so its prediction depends on no other row. The count
    is whole, and so on any grid that the noise has; nothing is rounded. A row on which the model fails counts as wrong:
    all rows went through before the charge, and an error now would tell of this one.
    """
    with unwritten(model):
        total = {_NAME: np.array([float(_correct(model, data, rows))])}
    release = gaussian_release(ClippedSum(total, 1.0, grid_for(receipt.release, 1.0)), receipt, stream, noise)
    return float(release.tensors[_NAME][0])


def check_countable(model: nn.Module, data: PrivateData) -> None:
    """Refuse data without class labels, or a model that does not score classes, before anything is charged."""
    output, target = next(predicted(model, data, np.zeros(1, np.int64)))
    if target.is_floating_point() or target.dim() != 1:
        raise InputError("counts of correct predictions need a class index per row; leave out counts and accuracies")
    if output.dim() != 2:
        raise InputError("counts of correct predictions need a model that scores classes, (rows, classes)")


def is_right(output: Tensor, target: Tensor) -> bool:
    """Whether the class of one row is predicted."""
    return output.argmax(1).item() == target.item()


def _correct(model: nn.Module, data: PrivateData, rows: IntArray) -> int:
    with evaluation_mode(model):
        return sum(_right_alone(model, inputs, target) for inputs, target in one_by_one(model, data, rows))


def _right_alone(model: nn.Module, inputs: Tensor, target: Tensor) -> bool:
    try:
        with torch.no_grad():
            return is_right(model(inputs), target)
    except Exception:  # a module may raise whatever it likes
        return False
