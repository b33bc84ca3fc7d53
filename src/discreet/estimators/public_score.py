"""The score of scikit-learn, for rows that are public."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from discreet.core.errors import InputError
from discreet.data.private.overlap import share_rows
from discreet.estimators.checked import plain
from discreet.estimators.declared import alike


class PublicScore:
    """A `score` that checks its rows before scikit-learn's mixin computes it."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy for classes, R^2 for numbers, on rows declared public (a score on private rows would not be
        paid for).

        `InputError` for the rows given to `fit`, and for views of their memory. Copies are not noticed.
        """
        check_is_fitted(self, "trained_")
        seen = getattr(self, "_seen", None)
        if seen is not None and share_rows(X, seen()):
            raise InputError(
                "score was asked for on the rows of fit, which are private, and a score of them was not paid for; "
                "score rows that are public, or buy a metric (docs/metrics.md)"
            )
        target = self._checked_target(y)  # type: ignore[attr-defined]
        plain(lambda: check_consistent_length(X, target))
        if hasattr(self, "classes_"):
            target = alike(target, self.classes_)
        return float(super().score(X, target, sample_weight))  # type: ignore[misc]
