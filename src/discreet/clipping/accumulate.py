"""Adding up the chunks of a batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from discreet.core.arrays import Array
from discreet.core.release import ClippedSum


class Accumulator:
    """A float64 sum over chunks. With no chunk at all it is zero, which is released like any other sum."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self._totals: dict[str, Array] = {
            name: np.zeros(tuple(parameter.shape), np.float64) for name, parameter in parameters.items()
        }

    def add(self, sums: Mapping[str, Tensor]) -> None:
        """Add the clipped sums of one chunk."""
        for name, total in self._totals.items():
            total += sums[name].detach().cpu().double().numpy()

    def total(self, sensitivity: float) -> ClippedSum:
        """The sum, with the bound on one unit's contribution that the chunks were clipped to."""
        return ClippedSum(self._totals, sensitivity)
