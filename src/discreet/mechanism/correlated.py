"""Correlated noise: what is released is each sum and parts of the sums before it; independent noise is added to that.

With S_t the clipped sum of step t, on its grid, m_0, ..., m_(b-1) whole numbers and z_t rounded Gaussian noise,

    released in step t:   y_t = m_0 S_t + m_1 S_(t-1) + ... + m_(b-1) S_(t-b+1) + z_t
    what follows from it: G_t = (y_t - m_1 G_(t-1) - ... - m_(b-1) G_(t-b+1)) / m_0

G_t is S_t and noise that is correlated over the steps: the noise of m_1 / m_0 parts of an earlier G is taken back. It
is computed from releases alone, so its rounding is nobody's concern.

Why a round of b steps costs one step of Poisson sampling at the rate p of a turn. Fix everything but one unit's draws:
the other units, their draws, the part that the unit is in. Its turns are b steps apart. If it takes part in its turn at
step t, it moves S_t by some D, and no other sum until its next turn; so it moves y_(t+i) by exactly m_i D, i < b. (Sums
are multiples of the grid and all products and additions are of whole numbers below 2^52, so nothing is rounded.) D may
depend on all releases before step t, and the other sums on those before their own; given these, the releases of steps t
to t + b - 1 are shifted by one vector of length at most |m| D, or not at all, by a coin of probability p that all of
them share. Turn the noise so that one axis is that vector: the ratio of the densities is that of one Poisson step with
noise multiplier std(z) / (|m| sensitivity). Each later turn is the same given the releases before it, so turns compose
like the steps of an adaptive mechanism. A unit has at most one turn in a round. (Choquette-Choo et al. 2023,
arXiv:2306.08153, theorems 4 and 5, prove it for any banded matrix.) If a chain begins anew, later terms of some y are
missing, which moves them less.

Other releases may come between (of rounds that overlap, of other runs, of metrics), chosen by what was released so far.
All that a turn adds to the releases of a round is post-processing of one number, drawn at the turn: X from N(0, 1), or
from N(mu, 1) if the coin says so, with mu = |m| D / std(z); the noise across the axis does not depend on the coin. So a
turn is one release of a sampled Gaussian, made when its step is charged, whatever is asked later.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace

import numpy as np

from discreet.core.array_types import Array
from discreet.core.errors import PrivacyViolation
from discreet.core.release import ClippedSum, Release
from discreet.mechanism.grid import LARGEST_MULTIPLE, rounded

Sums = Mapping[str, Array]


class Chain:
    """The sums and the releases of the last steps, where noise is correlated over `len(coefficients)` of them.

    One coefficient means independent noise: then sums and releases pass as they are. The sums that are kept are
    private: they stay in memory, and a run that is opened again begins a new chain.
    """

    def __init__(self, coefficients: Sequence[int] = (1,)) -> None:
        self._first, *self._others = coefficients
        self._total = sum(coefficients)
        self.norm = 1.0 if not self._others else math.sqrt(sum(one * one for one in coefficients)) * (1 + 2.0**-50)
        self.restart()

    def restart(self) -> None:
        """Begin a new chain: nothing of earlier steps enters later releases."""
        bands = len(self._others)
        self._sums: deque[Sums] = deque(maxlen=bands)
        self._means: deque[Sums] = deque(maxlen=bands)
        self._answers: deque[float] = deque(maxlen=bands)  # of the recurrence to a single 1, the last first
        self._power = 0.0
        self._public: tuple[float, float] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        raise PrivacyViolation("the kept sums are private: a chain is neither copied nor written")

    def unbroken(self) -> AbstractContextManager[None]:
        """Begin a new chain if the step inside is broken off."""
        return self._restarting() if self._others else nullcontext()

    @contextmanager
    def _restarting(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.restart()
            raise

    def bound(self, size: int, sensitivity: float, grid: float) -> tuple[int, float, float]:
        """The facts of a sum known beforehand, after `mixed`."""
        return size, sensitivity * self.norm, grid

    def mixed(self, total: ClippedSum) -> ClippedSum:
        """The sum of a step and its part of the sums before it, with the sensitivity of a whole round.

        `PrivacyViolation` if a number is not finite or too large for exact addition, or if sensitivity or grid are not
        those of the chain.
        """
        if not self._others:
            return total
        if self._public not in (None, (total.sensitivity, total.grid)):
            raise PrivacyViolation("sensitivity or grid changed between steps whose noise is correlated")
        self._public = total.sensitivity, total.grid
        sums = {name: self._checked(name, values, total.grid) for name, values in total.tensors.items()}
        mixed = {name: self._first * values for name, values in sums.items()}
        for weight, before in zip(self._others, self._sums, strict=False):
            for name, values in mixed.items():
                values += weight * before[name]
        self._sums.appendleft(sums)
        return replace(total, tensors=mixed, sensitivity=total.sensitivity * self.norm)

    def unmixed(self, release: Release) -> Release:
        """The sum of this step alone with its noise, from this release and those before it: post-processing."""
        if not self._others:
            return release
        found = {name: np.array(values) for name, values in release.tensors.items()}
        for weight, before in zip(self._others, self._means, strict=False):
            for name, values in found.items():
                values -= weight * before[name]
        for values in found.values():
            values /= self._first
        self._means.appendleft(found)
        start = 0.0 if self._answers else 1.0
        answer = (start - sum(w * x for w, x in zip(self._others, self._answers, strict=False))) / self._first
        self._answers.appendleft(answer)
        self._power += answer * answer
        return replace(release, tensors=found)

    @property
    def growth(self) -> float:
        """Standard deviation of the noise in what `unmixed` returned last, over that of the release itself."""
        return math.sqrt(self._power) if self._others else 1.0

    def _checked(self, name: str, values: Array, grid: float) -> Array:
        """The values on the grid, in memory of their own, small enough for sums of whole numbers to be exact."""
        on_grid = rounded(np.array(values, np.float64), grid)
        if not np.max(np.abs(on_grid), initial=0.0) * self._total < LARGEST_MULTIPLE * grid:  # not so for NaN
            raise PrivacyViolation(f"the clipped sum of {name} is too large for its grid; nothing was released")
        return on_grid
