"""What each unit counts in a metric or a score: one number from the rows of that unit alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, evaluation_mode
from discreet.core.arrays import IntArray
from discreet.data import PrivateData
from discreet.training.private_metrics.counts import is_right
from discreet.training.private_metrics.single_rows import one_by_one


def unit_values(
    kind: Literal["accuracy", "loss"],
    bound: float,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    units: IntArray,
) -> Iterator[float]:
    """What each of these units counts, in [0, bound]: the mean over its rows, each predicted alone.

    `accuracy`: 1 where the class is predicted, at a bound of 1. `loss`: clipped to the bound; one that is no number
    counts as the bound. A row on which the model or the loss fails counts as the worst there is.
    """
    if data.groups is None:
        yield from _row_values(kind, bound, model, criterion, data, units)
        return
    for unit in units:
        places = np.arange(data.groups.counts(np.array([unit]))[0])
        values = list(_row_values(kind, bound, model, criterion, data, data.groups.rows(int(unit), places)))
        yield min(bound, math.fsum(values) / len(values))


def _row_values(
    kind: Literal["accuracy", "loss"],
    bound: float,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    rows: IntArray,
) -> Iterator[float]:
    worst = 0.0 if kind == "accuracy" else bound
    with evaluation_mode(model):
        for inputs, target in one_by_one(model, data, rows):
            try:
                with torch.no_grad():
                    output = model(inputs)
                value = (
                    float(is_right(output, target)) if kind == "accuracy" else _loss(criterion, output, target, bound)
                )
            except Exception:  # all rows went through before the charge; an error now would tell of this one
                value = worst
            yield value


def _loss(criterion: Criterion, output: Tensor, target: Tensor, bound: float) -> float:
    value = float(criterion(output, target).sum())
    return bound if math.isnan(value) else min(bound, max(0.0, value))
