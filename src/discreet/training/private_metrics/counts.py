"""Bought counts on private rows: how many a model predicts correctly, with Gaussian noise."""

from __future__ import annotations

import numpy as np
from torch import nn

from discreet.core.array_types import IntArray
from discreet.core.errors import InputError
from discreet.core.release import ClippedSum, Receipt
from discreet.data import PrivateData
from discreet.mechanism import gaussian_release, grid_for
from discreet.plan import Counts
from discreet.randomness import RoundedSampler, Stream
from discreet.training.private_metrics.single_rows import predicted, values_of_rows
from discreet.training.private_metrics.unit_values import right_alone

_NAME = "correct"


def noisy_count(
    model: nn.Module, data: PrivateData, rows: IntArray, receipt: Receipt, stream: Stream, noise: RoundedSampler
) -> float:
    """The noisy number of `rows` whose class the model predicts, as `receipt` paid for it.

    A row changes the count by at most 1: each row is predicted alone, so its prediction depends on no other row. The
    count is a whole number, hence on any grid of the noise; nothing is rounded. A row on which the model fails counts
    as wrong: all rows passed before the charge, so an error now would reveal something of this row. `model` has seen no
    private row; it is copied, and sees none here.
    """
    total = {_NAME: np.array([sum(values_of_rows(right_alone, model, nn.CrossEntropyLoss(), data, rows))])}
    release = gaussian_release(ClippedSum(total, 1.0, grid_for(receipt.release, 1.0)), receipt, stream, noise)
    return float(release.tensors[_NAME][0])


def planned_count(
    counts: Counts, model: nn.Module, data: PrivateData, receipt: Receipt, stream: Stream, noise: RoundedSampler
) -> float:
    """The noisy count that an adaptive plan buys, of the rows that its draw takes."""
    (rows,) = counts.sampler.batches(receipt.position, len(data), stream)
    return noisy_count(model, data, rows, receipt, stream, noise)


def check_countable(model: nn.Module, data: PrivateData) -> None:
    """Refuse data without class labels, or a model that does not score classes, before anything is charged."""
    output, target = next(predicted(model, data, np.zeros(1, np.int64)))
    if target.is_floating_point() or target.dim() != 1:
        raise InputError(
            "counts of correct predictions, as accuracy is one, need one class per row; where numbers or several "
            'labels are predicted, buy a loss in its place: Metric(kind="loss", bound=1.0), or in a recipe, and with '
            "--set, metrics=[{kind: loss, rows: holdout, bound: 1}]"
        )
    if output.dim() != 2:
        raise InputError("counts of correct predictions need a model that scores classes, (rows, classes)")
