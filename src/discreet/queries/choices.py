"""Choices among public candidates: the exponential mechanism (for quantiles too) and noisy maxima.

Each chooses the candidate with the largest score plus noise; noisy scores stay secret:

| noise       | event                 | source                                                            |
|-------------|-----------------------|-------------------------------------------------------------------|
| gumbel      | BoundedRange(epsilon) | McSherry and Talwar 2007; Durfee and Rogers 2019                  |
| exponential | NoisyMax(epsilon)     | McKenna and Sheldon 2020 (permute and flip); Ding and others 2021 |
| laplace     | NoisyMax(epsilon)     | Dwork and Roth 2014, section 3.3                                  |

The noise scale is 2 D / epsilon for scores that one unit moves by at most D; D / epsilon suffices if an added unit
moves all scores up (or all down).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.core import checks
from discreet.core.adjacency import Adjacency, Query
from discreet.core.array_types import Array
from discreet.core.errors import DiscreetError, InputError, PrivacyViolation, first_line, kind_of
from discreet.core.events import BoundedRange, NoisyMax
from discreet.queries.draws import exponentials, gumbels, laplaces
from discreet.queries.rows import Column, check_column, columns_of
from discreet.randomness import Substream

_NOISES: dict[str, Callable[[Substream, int], Array]] = {
    "gumbel": gumbels,
    "exponential": exponentials,
    "laplace": laplaces,
}

_LEAST_SCALE = 2.0**-1000
"""Smaller noise would be rounded by a half, and scores are divided by it."""

FULL_SCORE = 2**30
"""The most that one unit adds to an exact score, in whole numbers: scores of models add up on this grid."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A private choice of one of `candidates`; `score(rows)` returns an array with one score per candidate.

    You declare the `sensitivity`: the most by which adding or removing one row changes any score. `one_sided`: an
    added row moves no score down (or moves none up). A score that is not finite, or fails on the rows, is a
    `PrivacyViolation`.
    """

    candidates: Sequence[Any]
    score: Callable[[Array], Array]
    sensitivity: float
    epsilon: float
    one_sided: bool = False
    noise: str = "gumbel"

    def __post_init__(self) -> None:
        check_candidates(self.candidates)
        if not callable(self.score):
            raise InputError(f"score must be a function of the rows, not {kind_of(self.score)}")
        if not isinstance(self.one_sided, bool | np.bool_):  # "no" would be true, and halve the noise
            raise InputError(f"one_sided must be True or False, got {self.one_sided!r:.80}")
        object.__setattr__(self, "sensitivity", checks.positive("sensitivity", self.sensitivity))
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon))
        if not isinstance(self.noise, str) or self.noise not in _NOISES:
            raise InputError(f"unknown noise {self.noise!r}; known: {', '.join(_NOISES)}")
        if not _LEAST_SCALE <= self.sensitivity / self.epsilon <= 1 / _LEAST_SCALE:
            raise InputError(
                f"the noise of a choice, sensitivity / epsilon = {self.sensitivity:g} / {self.epsilon:g}, is beyond "
                "what float64 holds at full precision; give the scores in another unit"
            )

    def event(self, adjacency: Adjacency) -> BoundedRange | NoisyMax:
        """The event at `epsilon`, the same under each adjacency: accounting doubles it for a replacement, which is a
        removal and an addition. Of `Quantile` it differs."""
        return (BoundedRange if self.noise == "gumbel" else NoisyMax)(self.epsilon)

    def scores(self, rows: Array, adjacency: Adjacency) -> Array:
        """The scores in units of the noise's scale."""
        scores = np.asarray(self.score(rows.copy()), dtype=np.float64)  # other queries see the rows unchanged
        if scores.shape != (len(self.candidates),):
            raise InputError(f"score must give one number per candidate: {len(self.candidates)}, not {scores.shape}")
        return scores / ((1 if self.one_sided else 2) * self.sensitivity / self.epsilon)

    def check_empty(self, empty: Array, adjacency: Adjacency) -> None:
        """`InputError` if there are no scores of `empty`, an array without rows, as a draw may be."""
        try:
            self.scores(empty, adjacency)
        except DiscreetError:
            raise
        except Exception as error:
            said = f"{type(error).__name__}: {first_line(error)}"
            raise InputError(
                f"the score of a choice fails on an array without rows, as a draw may be ({said}); it must give one "
                "number per candidate there too. Nothing was charged"
            ) from error

    def choose(self, rows: Array, adjacency: Adjacency, substream: Substream) -> Any:
        """The candidate whose noisy score is largest."""
        try:
            scores = self.scores(rows, adjacency)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # a score may raise whatever it likes, an error of the library too
            raise PrivacyViolation(
                f"the score of a choice failed on the private rows ({type(error).__name__}), whose numbers its words "
                "may hold; nothing was released for this choice, and it stays charged. Try the score on made-up rows"
            ) from None
        return self.candidates[noisy_argmax(scores, self.noise, substream)]


@dataclass(frozen=True, slots=True)
class Quantile:
    """The `q`-quantile of one column, chosen from a public grid of `points` values from `low` to `high`.

    The exponential mechanism over that public grid with score -|(1 - q) below - q above|, where `below` and `above`
    count the rows on either side (values outside the grid included). Adding a row moves a score by at most
    max(q, 1 - q), so the moves of all scores lie in a range of twice that; replacing one, in a range of 2 (Smith 2011).
    """

    q: float
    low: float
    high: float
    epsilon: float
    column: Column = 0
    points: int = 1001

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", checks.open_unit("q", self.q))
        object.__setattr__(self, "epsilon", checks.positive("epsilon", self.epsilon))
        check_column("column", self.column)
        checks.count("points", self.points, least=2)
        low, high = checks.real("low", self.low), checks.real("high", self.high)
        if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
            raise InputError(f"low and high must be finite, low below high, got {low!r} and {high!r}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def event(self, adjacency: Adjacency) -> BoundedRange:
        """The event at `epsilon` under `adjacency`, stated so that it holds under the other adjacencies too."""
        return BoundedRange(self.epsilon, Query.COUNT if adjacency is Adjacency.REPLACE_ONE else Query.CLIPPED_SUM)

    @property
    def grid(self) -> Array:
        """The public candidates."""
        return np.linspace(self.low, self.high, self.points)

    def scores(self, rows: Array, adjacency: Adjacency) -> Array:
        """The scores in units of the noise's scale."""
        values = np.sort(columns_of(rows, (self.column,))[:, 0])
        below = np.searchsorted(values, self.grid, side="left")
        above = len(values) - np.searchsorted(values, self.grid, side="right")
        scores = -np.abs((1 - self.q) * below - self.q * above)
        width = 2.0 if adjacency is Adjacency.REPLACE_ONE else 2 * max(self.q, 1 - self.q)
        scaled: Array = scores * (self.epsilon / width)
        return scaled

    def check_empty(self, empty: Array, adjacency: Adjacency) -> None:
        """`InputError` if there are no scores of `empty`, an array without rows."""
        self.scores(empty, adjacency)

    def choose(self, rows: Array, adjacency: Adjacency, substream: Substream) -> float:
        """The grid point chosen."""
        return float(self.grid[noisy_argmax(self.scores(rows, adjacency), "gumbel", substream)])


def check_candidates(candidates: object) -> None:
    """`InputError` unless these are public candidates in an order, at least one: a number must name each."""
    listed = hasattr(candidates, "__getitem__") and not isinstance(candidates, Mapping | Set)
    if not listed or not isinstance(candidates, Sized) or getattr(candidates, "shape", None) == ():
        raise InputError(f"candidates must be a list, in an order, not {kind_of(candidates)}; give list(...)")
    if len(candidates) < 1:
        raise InputError("candidates must not be empty")


def noisy_argmax(scores: Array, noise: str, substream: Substream) -> int:
    """The index of the largest score plus noise of scale 1. Scores are first shifted so that the largest is 0."""
    if not np.isfinite(scores).all():
        raise PrivacyViolation("a score is not finite; nothing was released for this choice")
    return int(np.argmax(scores - scores.max() + _NOISES[noise](substream, len(scores))))
