"""The score of scikit-learn, for rows that are public."""

from __future__ import annotations

from typing import Any

from discreet.core.errors import InputError
from discreet.data.private.overlap import share_rows


class PublicScore:
    """`score`, before the mixin of scikit-learn that computes it."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Of classes mean accuracy, of numbers R^2, on rows that are declared public: of others it is not paid for.

        `InputError` for what was given to `fit`, and for a part of it that lies in its memory. Copies are not seen.
        """
        seen = getattr(self, "_seen", None)
        if seen is not None and share_rows(X, seen()):
            raise InputError(
                "score was asked for on the rows of fit, which are private, and a score of them was not paid for; "
                "score rows that are public, or buy a metric (docs/metrics.md)"
            )
        return float(super().score(X, y, sample_weight))  # type: ignore[misc]
