"""The loss for the target of a table."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion
from discreet.data.tables import Encoder


class LogitAdjusted(nn.Module):
    """A `loss` of the outputs plus the logits of declared shares.

    The model then learns the evidence beyond class frequencies, and its own outputs treat all classes as equally
    frequent (Menon et al. 2021, "Long-tail learning via logit adjustment", section 4). Weights of rare classes would do
    less under clipping, because they lengthen gradients that are cut to the clip norm.
    """

    logits: Tensor

    def __init__(self, loss: nn.Module, logits: Tensor) -> None:
        super().__init__()
        self.loss = loss
        self.register_buffer("logits", logits)

    def forward(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of `outputs` (rows, classes)."""
        found: Tensor = self.loss(outputs + self.logits, targets)
        return found


def loss_of(encoder: Encoder) -> Criterion:
    """The loss for the target of a table. Declared weights are scaled to a mean of 1 over the classes; of declared
    shares see `LogitAdjusted`."""
    if encoder.task == "regression":
        return nn.MSELoss()
    weights = None if encoder.weights is None else torch.tensor(encoder.weights)
    shares = None if encoder.shares is None else torch.tensor(encoder.shares)
    if encoder.task == "labels":
        labels = nn.BCEWithLogitsLoss(pos_weight=weights)
        return labels if shares is None else LogitAdjusted(labels, shares.logit())
    if shares is not None:
        return LogitAdjusted(nn.CrossEntropyLoss(), shares.log())
    if weights is None:
        return nn.CrossEntropyLoss()
    return nn.CrossEntropyLoss(weight=weights / weights.mean(), reduction="sum")  # a mean would divide by them again
