"""Cross entropy of classes that stand for numbers, such as ratings of one to five stars."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from discreet.core.errors import InputError


class ValuedCrossEntropy(nn.CrossEntropyLoss):
    """torch's cross entropy, where class i stands for `values[i]`, so that predictions can be read as numbers."""

    def __init__(self, values: Sequence[float]) -> None:
        super().__init__()
        if not values:
            raise InputError("classes that stand for numbers need these numbers; give one for each class")
        self.values = torch.tensor([float(value) for value in values])

    def expected(self, output: Tensor) -> Tensor:
        """The mean value under the softmax of the outputs, shape (n, classes); returns shape (n,)."""
        mean: Tensor = output.softmax(1) @ self.values.to(output)
        return mean
