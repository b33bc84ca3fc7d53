"""A private regressor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import RegressorMixin
from torch import Tensor, nn

from discreet.core.array_types import Array
from discreet.estimators.base import PrivateEstimator
from discreet.estimators.declared import target_range
from discreet.estimators.public_score import PublicScore


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegressor(PublicScore, RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A privately trained regressor with squared error; settings as in `PrivateEstimator`, and `target_bounds`.

    `target_bounds`: the declared range (low, high) of the target. Targets and predictions are clipped to it.
    """

    target_bounds: tuple[float, float] | None = None

    def predict(self, X: Any) -> Array:
        """The number of each row, (rows,), in the unit of the target."""
        return self._outputs(X)[:, 0]

    @property
    def _numeric(self) -> bool:
        return True

    def _declared(self) -> Mapping[str, object]:
        return {"target_bounds": self.target_bounds}

    def _target(self) -> Mapping[str, Any]:
        self._low, self._high = target_range(self.target_bounds)
        return {"type": "number", "low": self._low, "high": self._high, "outside": "clip"}

    def _encoded(self, target: npt.NDArray[Any]) -> Tensor:
        inside = np.clip(np.asarray(target, np.float64), self._low, self._high)
        places = 2 * (inside - self._low) / (self._high - self._low) - 1
        return torch.from_numpy(places.astype(np.float32)).unsqueeze(1)

    def _criterion(self) -> nn.Module:
        return nn.MSELoss()
