"""Adds the accuracy of one answer for all public rows to the last metrics of a recipe's run."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from discreet.core.metric_names import BASELINE_ACCURACY
from discreet.training import Trained


def with_baseline(trained: Trained, test: tuple[Tensor, Tensor] | None) -> Trained:
    """`trained`, with the accuracy of the most frequent class of the `test` rows added to its last public metrics."""
    if test is None or "accuracy" not in trained.last_metrics:
        return trained
    counts = torch.unique(test[1], return_counts=True)[1]
    last = trained.evaluations[-1]
    metrics = {**last.metrics, BASELINE_ACCURACY: float(counts.max() / counts.sum())}
    return replace(trained, evaluations=(*trained.evaluations[:-1], replace(last, metrics=metrics)))
