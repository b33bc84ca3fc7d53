"""Calibration of predicted probabilities, on data declared public."""

from __future__ import annotations

import torch
from torch import Tensor

from discreet.core import checks
from discreet.core.errors import InputError


def calibration_error(probabilities: Tensor, targets: Tensor, bins: int = 15) -> float:
    """Expected calibration error: the mean gap between confidence and accuracy.

    `probabilities` (n, classes), `targets` (n,). Predictions are sorted by the probability of the predicted class
    into `bins` equal intervals; the gap of each counts by its share of the n (Naeini, Cooper and Hauskrecht 2015; Guo
    et al. 2017, equation 3). 0 is best.
    """
    _check(probabilities, targets)
    bins = checks.count("bins", bins)
    sure, predicted = probabilities.double().max(1)
    right = (predicted == targets).double()
    place = (sure * bins).ceil().long().clamp(1, bins) - 1  # intervals are open below, closed above
    gaps = torch.zeros(bins, dtype=torch.float64).index_add_(0, place.cpu(), (right - sure).cpu())
    return float(gaps.abs().sum()) / len(targets)


def log_loss(probabilities: Tensor, targets: Tensor) -> float:
    """Mean negative log-likelihood, in nats; infinite where a class that occurred was given probability 0."""
    _check(probabilities, targets)
    return -float(probabilities.double().gather(1, targets.view(-1, 1)).log().mean())


def _check(probabilities: Tensor, targets: Tensor) -> None:
    if probabilities.dim() != 2 or targets.shape != probabilities.shape[:1] or not len(targets):
        raise InputError(
            f"need probabilities (n, classes) and targets (n,), got {tuple(probabilities.shape)} and "
            f"{tuple(targets.shape)}"
        )
