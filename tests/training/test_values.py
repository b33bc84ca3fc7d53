"""What a unit counts, where the model or the loss fails on its row."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from problems import CLASSES, FEATURES, linear
from torch import Tensor, nn

from discreet.data import as_private
from discreet.training.private_metrics.unit_values import unit_values


class Choosy(nn.Module):
    """Refuses large inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = linear()

    def forward(self, rows: Tensor) -> Tensor:
        if float(rows.abs().max()) > 100:
            raise ValueError("too large")
        found: Tensor = self.inner(rows)
        return found


def refusing(output: Tensor, target: Tensor) -> Tensor:
    """A loss that raises where targets are 0."""
    if int(target) == 0:
        raise RuntimeError("class 0")
    return F.cross_entropy(output, target)


@pytest.mark.parametrize(("kind", "bound", "worst"), [("loss", 50.0, 50.0), ("accuracy", 1.0, 0.0)])
def test_an_error_on_one_row_is_the_worst_value_and_ends_nothing(
    kind: Literal["loss", "accuracy"], bound: float, worst: float
) -> None:
    """It would tell of that row, after others were charged for."""
    torch.manual_seed(0)
    inputs, targets = torch.randn(6, FEATURES), torch.arange(6) % CLASSES
    inputs[2] = 1000.0
    failed = [2] if kind == "accuracy" else [row for row in range(6) if row == 2 or targets[row] == 0]
    data = as_private((inputs, targets))
    values = list(unit_values(kind, bound, Choosy(), refusing, data, np.arange(6)))
    assert len(values) == 6
    assert [values[row] for row in failed] == [worst] * len(failed)
    if kind == "loss":
        assert all(0 < values[row] < bound for row in range(6) if row not in failed)
