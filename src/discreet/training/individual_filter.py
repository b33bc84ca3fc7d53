"""The individual filter: a unit takes part in a step only if all that it has added, this step included, stays within
its own budget.

Let u_t be what a unit adds to the sum of step t, S_t the sensitivity of that step and s the noise multiplier, so that
each coordinate of the sum gets noise of deviation s S_t. The filter holds, for each unit and whatever is released,

    sum over t of |u_t|^2 / S_t^2 <= K        (K is `full`; 0 is added in a step that would break this).

**Theorem.** All steps of a period together are mu-Gaussian-DP, mu = sqrt(K) / s, under add/remove and zero-out, and
2 mu-Gaussian-DP under replace-one: no more than K steps in which every unit adds S_t. (Individual filters: Feldman and
Zrnic 2021, arXiv:2008.11193, for Rényi DP; Koskela, Tobaben and Honkela 2022, arXiv:2209.15596, for Gaussian DP.)

**Proof.** Whether a unit takes part follows from its own data, its own random numbers and earlier releases. Given
these, the sums of two neighbours differ by the v_t = u_t of the unit that is added or removed; if it is replaced, by
the difference of two such vectors, and sum |v_t|^2 / S_t^2 <= 4 K (triangle inequality, over all steps at once). Put
c_t = |v_t|^2 / (s S_t)^2: known before the noise of step t is drawn. Spend what is left of m^2 = K / s^2 (or 4 K / s^2)
in one more step, which only helps to tell the neighbours apart. So the c_t add up to m^2 on every path. With z_t the
noise of step t along v_t, in deviations, log dP/dQ is sum sqrt(c_t) z_t + m^2 / 2 under P, where the unit is there, and
sum sqrt(c_t) z_t - m^2 / 2 under Q. Given the past, E exp(i x sqrt(c_t) z_t + x^2 c_t / 2) = 1, for every real x;
hence E exp(i x sum sqrt(c_t) z_t) = exp(-x^2 m^2 / 2), and the sum is normal with variance m^2. So log dP/dQ has under
P and under Q the laws that it has for N(m, 1) and N(0, 1), and so have all divergences: that is m-Gaussian DP.

**In floating point** the proof needs that what one unit adds, and whether it does, depends on no other unit. So the
engine is `exact`: it computes each unit alone, and what it adds is a multiple of the grid, so that sums are exact and
nothing must be added for rounding. The length is that of the multiple which is added, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from torch import Tensor

from discreet.clipping import Clip
from discreet.core.array_types import IntArray
from discreet.core.errors import InputError, PrivacyViolation
from discreet.ledger.units_spent import PARTS, UnitsSpent
from discreet.plan import AdaptivePlan, IndividualSampling, Plan


def parts_of(sums: Mapping[str, Tensor], clip: Clip) -> int:
    """The parts of a step at full length that a unit spends when it adds `sums`: |sums|^2 / sensitivity^2 x `PARTS`,
    rounded up.

    `sums`: multiples of the grid, at most the sensitivity of the clip long. A sum of n squares in float64 is off by at
    most n roundings, and is taken in one order, wherever in memory the numbers are.
    """
    square, size = 0.0, 0
    for part in sums.values():
        multiples = part.detach().cpu().double().numpy().reshape(-1) / clip.grid
        square += float(np.square(multiples).sum())
        size += multiples.size
    share = square * (clip.grid / clip.sensitivity) ** 2 * (1 + (size + 16) * 2.0**-52)
    if square == 0:
        return 0
    return max(1, math.ceil(share * PARTS)) if share < 1 else PARTS


class IndividualFilter:
    """The budget that each unit of a run has spent, and who takes part. All of it is private: nothing of it leaves the
    process, but into the file `kept`, if there is one.

    A step is `begin`, `admits` for each unit in order, and `settle`, before the release. A step that is broken off
    releases nothing and spends nothing.
    """

    def __init__(self, full: int, units: int, kept: Path | None = None) -> None:
        nothing: IntArray = np.zeros(units, dtype=np.int64)
        self._budget, self._spent, self._kept = full * PARTS, nothing, kept
        self._before = UnitsSpent.load(kept) if kept is not None and kept.exists() else UnitsSpent(nothing, 0)
        self._turn: list[int] = []
        if len(self._before.spent) != units:
            raise InputError(f"{kept} is about other units than the data has; resume with the data of the run")

    def begin(self, *, first: bool) -> None:
        """Begin a step; `first`: of a period, for which every unit has a new budget."""
        if first:
            self._before = UnitsSpent(self._before.spent + self._spent, self._before.allowed + self._budget)
            self._spent = self._spent * 0
        self._turn = []

    def admits(self, sums: Mapping[str, Tensor], clip: Clip) -> bool:
        """Whether the next unit, which would add `sums`, takes part."""
        spent = int(self._spent[len(self._turn)])
        then = spent + parts_of(sums, clip)
        self._turn.append(then if then <= self._budget else spent)
        return then <= self._budget

    def settle(self) -> None:
        """Note what the step has spent, durably if it is kept. `PrivacyViolation` unless every unit was asked."""
        if len(self._turn) != len(self._spent):
            raise PrivacyViolation("the units of a step are not those whose budgets are kept; nothing was released")
        self._spent = np.array(self._turn, dtype=np.int64)
        if self._kept is not None:
            UnitsSpent(self._before.spent + self._spent, self._before.allowed).save(self._kept)


def filter_of(plan: Plan | AdaptivePlan, units: int, kept: Path | None) -> IndividualFilter | None:
    """The filter of a run, if its plan has one."""
    if isinstance(plan.sampling, IndividualSampling):
        return IndividualFilter(plan.sampling.full, units, kept)
    if kept is not None:
        raise InputError("keep_spent is about budgets of single units; use individual sampling, or leave it out")
    return None
