"""Curves of predictions on public rows, as counts, so that intervals can be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet.certificate.described import Bin, Cut
from discreet.core.array_types import Array, BoolArray

_CUTS, _BINS = 60, 10
LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Coverage levels of the intervals of a predicted number."""


def cuts(scores: Array, positive: BoolArray) -> list[Cut]:
    """Thresholds from high to low.

    `scores` and `positive`: (rows,). At most 60 thresholds, about evenly spread along the ROC curve (Fawcett 2006);
    the last one takes every row.
    """
    order = np.argsort(-scores, kind="stable")
    sorted_scores, found = scores[order], np.cumsum(positive[order])
    last = np.append(np.flatnonzero(np.diff(sorted_scores)), len(scores) - 1)  # of rows with an equal score
    false = last + 1 - found[last]
    length = found[last] / max(1, found[-1]) + false / max(1, false[-1])
    wanted = np.linspace(length[0], length[-1], _CUTS)
    kept = np.unique(np.minimum(np.searchsorted(length, wanted), len(last) - 1))
    return [Cut(score=float(sorted_scores[last[i]]), found=int(found[last[i]]), false=int(false[i])) for i in kept]


def reliability(said: Array, happened: BoolArray) -> list[Bin]:
    """A bin for every tenth of probability with rows."""
    bins = np.minimum((said * _BINS).astype(np.int64), _BINS - 1)
    inside = [bins == one for one in np.unique(bins)]
    return [Bin(said=float(said[one].mean()), rows=int(one.sum()), true=int(happened[one].sum())) for one in inside]


def error_bounds(errors: Sequence[float] | Array) -> dict[float, float]:
    """For each level, a bound that a new row's error stays below with at least that probability.

    `errors`: absolute errors on rows that the model has not learned from, exchangeable with the new row (split
    conformal prediction, Lei et al. 2018, section 2.2); infinite for a row that no interval can hold. A level that
    needs more rows is left out.
    """
    ranked = np.sort(np.asarray(errors, dtype=float))
    places = {level: math.ceil((len(ranked) + 1) * level) for level in LEVELS}
    found = {level: float(ranked[place - 1]) for level, place in places.items() if place <= len(ranked)}
    return {level: bound for level, bound in found.items() if math.isfinite(bound)}
