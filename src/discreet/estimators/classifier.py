"""A private classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor, nn

from discreet.core.array_types import Array
from discreet.core.errors import InputError
from discreet.estimators.base import PrivateEstimator
from discreet.estimators.checked import plain
from discreet.estimators.declared import TARGET, alike, labels
from discreet.estimators.public_score import PublicScore


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateClassifier(PublicScore, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """A privately trained classifier; settings as in `PrivateEstimator`, and the declared `classes`.

    An undeclared label is refused. After `fit`, `classes_` are the declared classes in order, even those without a row.
    """

    classes: Any = None

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row, (rows,)."""
        scores = self.predict_proba(X)
        named: npt.NDArray[Any] = self.classes_[scores.argmax(1)]
        return named

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class, (rows, classes), in the order of `classes_`."""
        return self._outputs(X)

    @property
    def _numeric(self) -> bool:
        return False

    def _declared(self) -> Mapping[str, object]:
        return {"classes": self.classes}

    def _targets(self) -> Mapping[str, Any]:
        self.classes_ = labels(self.classes)
        return {TARGET: {"type": "category", "categories": [str(label) for label in self.classes_.tolist()]}}

    def _encoded(self, target: npt.NDArray[Any]) -> Tensor:
        given = target.tolist()  # NumPy may round whole numbers beside a fraction: each label is looked up as it is
        target = alike(target, self.classes_)
        plain(lambda: check_classification_targets(target), labels=True, y=target)
        places = {label: place for place, label in enumerate(self.classes_.tolist())}
        found = [places.get(label) for label in given]
        if None in found:
            row = found.index(None)
            raise InputError(
                f"the label of row {row}, counted from 0, is none of the declared classes; declare it in classes, or "
                "leave the row out"
            )
        return torch.tensor(found, dtype=torch.int64)

    def _criterion(self) -> nn.Module:
        return nn.CrossEntropyLoss()
