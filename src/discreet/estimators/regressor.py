"""A private regressor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from torch import Tensor, nn

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.estimators.base import PrivateEstimator
from discreet.estimators.checked import plain
from discreet.estimators.declared import in_order, target_ranges, targets_in
from discreet.estimators.public_score import PublicScore


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRegressor(PublicScore, RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """A privately trained regressor with squared error; settings as in `PrivateEstimator`, and `target_bounds`.

    `target_bounds`: the declared range (low, high) of the target. Targets and predictions are clipped to it. For
    several targets, a pair for each, or a mapping of their names to pairs; the loss is then the mean of their squared
    errors, each in the unit of half its range.
    """

    target_bounds: Any = None

    def predict(self, X: Any) -> Array:
        """The number of each row, (rows,), in the unit of the target; of several ones (rows, targets)."""
        found = self._outputs(X)
        return found if found.shape[1] > 1 else found[:, 0]

    @property
    def _numeric(self) -> bool:
        return True

    def _declared(self) -> Mapping[str, object]:
        return {"target_bounds": self.target_bounds}

    def _targets_declared(self) -> int:
        return targets_in(self.target_bounds)

    def _in_order(self, y: Any) -> Any:
        return in_order(y, self.target_bounds)

    def _targets(self) -> Mapping[str, Any]:
        self._ranges = target_ranges(self.target_bounds)
        column = {"type": "number", "outside": "clip"}
        return {name: column | {"low": low, "high": high} for name, (low, high) in self._ranges.items()}

    def _encoded(self, target: npt.NDArray[Any]) -> Tensor:
        found = plain(lambda: check_array(target, dtype=np.float64, ensure_2d=False, input_name="y"), y=target)
        low, high = np.array(list(self._ranges.values())).T
        if found.shape[1:] != ((len(low),) if len(low) > 1 else ()):
            count = math.prod(found.shape[1:])  # how many rows there are is private
            raise InputError(
                f"y has {count} {'number' if count == 1 else 'numbers'} for each row, and target_bounds declares "
                f"{len(low)}; give a column for each"
            )
        places = 2 * (np.clip(found.reshape(len(found), -1), low, high) - low) / (high - low) - 1
        return torch.from_numpy(places.astype(np.float32))

    def _criterion(self) -> nn.Module:
        return nn.MSELoss()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._targets_declared() > 1
        return tags
