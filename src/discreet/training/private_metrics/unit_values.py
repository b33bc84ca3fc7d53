"""The value of each unit in a metric or a score: one number, from the rows of that unit alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion
from discreet.core.array_types import IntArray
from discreet.data import PrivateData
from discreet.training.private_metrics.single_rows import Value, values_of_rows, values_of_units

_ENDS = (KeyboardInterrupt, GeneratorExit)
"""Whatever else is raised (`SystemExit`, too) is of the row."""


def unit_values(
    kind: str,
    bound: float,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    units: IntArray,
) -> list[float]:
    """The value of each unit, in [0, bound]: the mean over its rows, each predicted alone.

    `accuracy`: 1 where the predicted class is right; its bound is 1. `loss`: clipped to the bound; NaN counts as the
    bound. A row on which the model or the loss fails gets the worst value.

    `model` and `criterion` have seen no private row; they are copied, and see none here.
    """
    value = VALUES[kind](bound)
    if data.groups is None:
        found = values_of_rows(value, model, criterion, data, units)
    else:
        each = values_of_units(value, model, criterion, data, units)
        found = [math.fsum(values) / len(values) for values in each]
    return [min(bound, max(0.0, one)) for one in found]  # a value that is no number counts 0


def right_alone(model: nn.Module, criterion: Criterion, inputs: Tensor, target: Tensor) -> float:
    """1 if the class of one row is predicted, or else 0."""
    try:
        with torch.no_grad():
            return float(model(inputs).argmax(1).item() == target.item())
    except _ENDS:
        raise
    except BaseException:  # all rows went through before the charge; an error now would tell of this one
        return 0.0


def _clipped_loss(bound: float) -> Value:
    def value(model: nn.Module, criterion: Criterion, inputs: Tensor, target: Tensor) -> float:
        try:
            with torch.no_grad():
                found = float(criterion(model(inputs), target).sum())
        except _ENDS:
            raise
        except BaseException:  # as above
            return bound
        return bound if math.isnan(found) else min(bound, max(0.0, found))

    return value


VALUES: dict[str, Callable[[float], Value]] = {"accuracy": lambda bound: right_alone, "loss": _clipped_loss}
"""For each kind of metric: makes, from a bound, the function that gives a row's value in [0, bound]. It never raises.
"""
