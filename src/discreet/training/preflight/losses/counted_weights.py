"""A warning of class weights that are what counting the private labels gives: nobody paid for the counts."""

from __future__ import annotations

import logging

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping import Criterion
from discreet.data import PrivateData
from discreet.training.preflight.losses.loss_trials import named

_AT_ONCE = 4096
_CLOSE = 1e-4
"""The relative difference up to which weights and counts agree."""

_log = logging.getLogger("discreet")


def warn_of_counted_weights(criterion: Criterion, data: PrivateData) -> None:
    """Warn the holder of the data if the weights of a loss of torch.nn are inverse to the numbers of private rows with
    each label: one row then changes what all others add to a sum. Rows at sites are not counted."""
    if data.sites is None and _agrees(criterion, data):
        _log.warning(
            "the class weights of %s are inverse to the numbers of private rows with each label; if they were computed "
            "from these rows, the guarantee does not cover them, as one row then moves the gradients of all others: "
            "take weights that are known from elsewhere, or buy the counts (discreet.queries)",
            named(criterion),
        )


def _agrees(criterion: Criterion, data: PrivateData) -> bool:
    if isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss) and criterion.weight is not None:
        weights = criterion.weight.detach().cpu().double()
        if criterion.reduction == "mean" and data.first()[1].dim() == 1:  # weights cancel where a row is taken alone
            return False
        return len(weights) > 1 and _alike(weights * _counted(data, len(weights)), weights)
    if isinstance(criterion, nn.BCEWithLogitsLoss) and criterion.pos_weight is not None:
        weights = criterion.pos_weight.detach().cpu().double().reshape(-1)
        positive = _positive(data)
        if len(weights) not in (1, len(positive)):
            return False
        wanted = (data.rows - positive) / positive  # infinite or NaN where a label has no rows
        return bool((weights != 1).any()) and bool(((weights / wanted - 1).abs() <= _CLOSE).all())
    return False


def _alike(products: Tensor, weights: Tensor) -> bool:
    """Whether the weights differ, and make equal numbers of the counts that are not zero, of which there are two."""
    known = products[products > 0]
    differ = bool((weights != weights[0]).any())
    return differ and len(known) > 1 and bool((known.max() - known.min()) <= _CLOSE * known.max())


def _targets(data: PrivateData) -> list[Tensor]:
    places = range(0, data.rows, _AT_ONCE)
    return [data.fetch(np.arange(start, min(start + _AT_ONCE, data.rows)))[1].detach().cpu() for start in places]


def _counted(data: PrivateData, classes: int) -> Tensor:
    """How often each class is a label: shape (classes,)."""
    found = torch.zeros(classes, dtype=torch.float64)
    for part in _targets(data):
        if not part.is_floating_point():
            labels = part.reshape(-1).long()
            found += torch.bincount(labels[(labels >= 0) & (labels < classes)], minlength=classes)
    return found


def _positive(data: PrivateData) -> Tensor:
    """How many rows have each of the labels: shape (labels,)."""
    return sum((part > 0.5).double().reshape(len(part), -1).sum(0) for part in _targets(data))  # type: ignore[return-value]
