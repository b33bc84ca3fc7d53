"""The score of scikit-learn, for rows that are public."""

from __future__ import annotations

from typing import Any

from discreet.core.errors import InputError
from discreet.data.private.overlap import share_rows


class PublicScore:
    """A `score` that checks its rows before scikit-learn's mixin computes it."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy for classes, R^2 for numbers, on rows declared public (a score on private rows would not be
        paid for).

        `InputError` for the rows given to `fit`, and for views of their memory. Copies are not noticed.
        """
        seen = getattr(self, "_seen", None)
        if seen is not None and share_rows(X, seen()):
            raise InputError(
                "score was asked for on the rows of fit, which are private, and a score of them was not paid for; "
                "score rows that are public, or buy a metric (docs/metrics.md)"
            )
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]
