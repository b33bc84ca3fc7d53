"""The choice among models that were each trained on their own part of the data, by a further part.

    models, each trained on a part of its own -> scores on the last part, in whole numbers -> Gumbel noise -> the winner

A unit is either trained on or in the last part, never both. It adds between 0 and 1, in multiples of a public grid, to
the score of each model; scores are exact, and stay private. See `plan.tuning.disjoint_parts` for the price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import nn

from discreet.clipping import Criterion
from discreet.core.adjacency import Unit
from discreet.core.errors import PrivacyViolation
from discreet.data import Portion, PrivateData, group
from discreet.plan import PartsSearch
from discreet.queries.choices import FULL_SCORE, noisy_argmax
from discreet.randomness import Substream
from discreet.training.preflight.data_check import try_every_row
from discreet.training.private_metrics.counts import check_countable
from discreet.training.private_metrics.noisy_metrics import check_losses
from discreet.training.private_metrics.unit_values import unit_values


class PrivateChoice:
    """Scores models by units that none of them was trained on, and chooses one of them."""

    def __init__(self, search: PartsSearch, last: Portion, unit: Unit) -> None:
        self._search, self._range = search, search.choice.epsilon
        whole = unit is Unit.USER
        self._data: PrivateData = replace(last.data, groups=group(last.names, len(last.names)) if whole else None)

    def check(self, model: nn.Module, criterion: Criterion) -> None:
        """Refuse a candidate that cannot be scored, on every row, before anything is charged."""
        try_every_row(model, criterion, self._data)
        if self._search.score == "accuracy":
            check_countable(model, self._data)
        else:
            check_losses(model, criterion, self._data)

    def score(self, model: nn.Module, criterion: Criterion) -> int:
        """The sum over all units, exact, of what each adds: from 0 to `FULL_SCORE`. Private; higher is better."""
        bound = self._search.bound or 1.0
        units = np.arange(len(self._data), dtype=np.int64)
        values = unit_values(self._search.score, bound, model, criterion, self._data, units)
        total = sum(min(FULL_SCORE, math.floor(value / bound * FULL_SCORE)) for value in values)
        return total if self._search.score == "accuracy" else -total

    def choose(self, scores: Sequence[int | None], substream: Substream) -> int:
        """The place of one score, with probability proportional to e^(epsilon score / `FULL_SCORE`).

        One that is None is never chosen: its model diverged, which its own part of the data alone decides.
        """
        if len(scores) + 1 != self._search.parts:
            raise PrivacyViolation("the choice is among all candidates of the search; nothing was released")
        places, known = zip(*((place, one) for place, one in enumerate(scores) if one is not None), strict=True)
        # Subtracted as whole numbers, so that the largest scores are compared without rounding.
        below = np.array([score - max(known) for score in known], dtype=np.float64)
        return int(places[noisy_argmax(below * (self._range / FULL_SCORE), "gumbel", substream)])
