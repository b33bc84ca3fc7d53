"""Plans an inversion: the order, how far to go, and how exact to be, with what the plan itself has to prove.

Any order and period give valid bounds (`inversion`); a poor choice only makes them wide. Proved are the moments of
`Sums` and the bound on all frequencies that are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from discreet.accounting.pld.contour.characteristic import Decay, estimates
from discreet.accounting.pld.contour.chosen_rules import are_enough, rules
from discreet.accounting.pld.contour.nodes import node_count
from discreet.accounting.pld.contour.sampled_parts import Parts
from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF
from discreet.accounting.pld.window import alike
from discreet.core.array_types import Array

MAX_WORK = 2.0**29
"""The most work, nodes x frequencies summed over the parts: about a second."""

_LIGHT_WORK, _LIGHT_WORK_EACH = 2.0**22, 2.0**13
"""Work too small to save at the cost of accuracy: some milliseconds, and an amount for each part."""

_MAX_NODES, _MAX_NODES_EACH = 2.0**14, 2.0**9
_FEW = 24
_LOWEST, _HIGHEST = 1e-3, 1e9
_BELOW, _FAR_BELOW = 0.8, 0.5
"""The order, relative to Chernoff's: where losses add up to about epsilon, and where a few rare ones make epsilon."""

_FINEST, _COARSEST = 1e-8, 1e-2
"""The least and the largest error to aim at, relative to delta."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The place of the contour and its length; a poor choice only makes the bounds wide."""

    order: float
    alias_order: float
    epsilon: float
    period: float
    size: int
    top: float
    need: float
    cut: float
    """A proved bound on the sum over frequencies from `size` on, relative to M(order)."""


@dataclass(frozen=True, slots=True)
class Look:
    """The order at which Chernoff's bound on epsilon is least, and about that bound; similar parts are gathered."""

    groups: Groups
    steepest: float
    epsilon: float

    @classmethod
    def at(cls, parts: Parts, delta: float) -> Look:
        """From estimates of log M at many orders."""
        groups = Groups.of(parts)
        return cls(
            groups, *_least(lambda t: _chernoff_epsilon(estimates(groups.typical, t), t, delta), _LOWEST, _HIGHEST)
        )

    def ceiling(self, parts: Parts, delta: float, enough: float) -> float:
        """Chernoff's bound on epsilon, proved; infinite if it is not expected to be at most `enough`."""
        sums = None
        if self.epsilon <= enough:
            sums = Sums.of(parts, self.steepest, math.log(float(parts.count.sum())) + 6, moment_only=True)
        if sums is None:
            return math.inf
        # delta <= M e^(-order eps) (order / (order + 1))^order / (order + 1) at every order.
        found = float(_chernoff_epsilon(sums.log_moment + 2 * sums.error, self.steepest, delta))
        return max(0.0, found) * (1 + 1e-12) + 1e-12


def planned(parts: Parts, look: Look, delta: float, tolerance: Callable[[float], float], *, far: bool) -> Plan | None:
    """The plan for an error that `tolerance` allows; None if it would take too much work.

    `far`: allow for epsilons that rare, large losses make. Otherwise the saddle point is relied on.
    """
    groups, steepest = look.groups, look.steepest
    aim = _aim(parts, groups, _BELOW * steepest, delta)
    if aim is not None and not far:
        aim = replace(aim, far=False)
    if aim is not None and aim.far:
        aim = _aim(parts, groups, _FAR_BELOW * steepest, delta)
    if aim is None:
        return None
    count = float(parts.count.sum())
    coarsest = max(_FINEST, min(_COARSEST, 0.1 * tolerance(aim.epsilon) * aim.order))
    last, error = None, _FINEST
    while error < coarsest:
        plan = aim.plan(error, count)
        if plan is not None and groups.take(plan, _LIGHT_WORK + _LIGHT_WORK_EACH * len(parts)):
            return plan
        if last is None:
            last = aim.plan(coarsest, count)
            if last is None or not groups.take(last, MAX_WORK):
                return None
        error *= 10
    last = last or aim.plan(coarsest, count)
    return last if last is not None and groups.take(last, MAX_WORK) else None


@dataclass(frozen=True)
class _Aim:
    """The inputs of a plan: `far` says that `epsilon`, Chernoff's, lies far above where the tilted losses are."""

    worst: Parts
    sums: Sums
    order: float
    epsilon: float
    delta: float
    far: bool

    def plan(self, error: float, count: float) -> Plan | None:
        """The plan for an error relative to delta; None if no bound on |f| allows it."""
        order, sums = self.order, self.sums
        # The size of the integral, by the saddle point; far from it, f(eps) / M(order) is at least delta / M(order).
        size = 1 / ((order + 1) * order * (1 + 2.5 * sums.deviation))
        if self.far:
            size = min(size, self.delta * math.exp(-sums.log_moment))
        tops, cuts = sums.truncation
        if not cuts[-1] <= error * size:
            return None
        step, period = self._alias(math.log(error * size))
        period = max(period, (-math.log(self.delta) - math.log(error)) / order)
        fit = int(np.flatnonzero(cuts <= error * size)[0])
        # The integral from the last frequency that is kept bounds the sum over all later ones.
        terms = math.ceil(tops[fit] * period / (2 * math.pi)) + 1
        top = 2 * math.pi * (terms - 1) / period
        need = 3 + math.log(count) - math.log(order) - math.log(error * size)
        return Plan(order, order + step, self.epsilon, period, terms, top, need, float(cuts[fit]))

    def _alias(self, log_aim: float) -> tuple[float, float]:
        """The raise of the order, and the period at which Chernoff's bound on f(eps + period) / M is e^log_aim."""
        steps, rises = self._rises
        periods = (rises - steps * (0.0 if self.far else self.epsilon) - log_aim) / steps
        best = int(np.argmin(periods))
        return float(steps[best]), float(periods[best])

    @cached_property
    def _rises(self) -> tuple[Array, Array]:
        """Steps, and about log M(order + step) - log M(order)."""
        steps = self.order * np.geomspace(0.05, 50.0, 20)
        return steps, estimates(self.worst, self.order + steps) - self.sums.log_moment


def _aim(parts: Parts, groups: Groups, order: float, delta: float) -> _Aim | None:
    sums = Sums.of(parts, order, math.log(float(parts.count.sum())) + 12)
    if sums is None:
        return None
    epsilon = float(_chernoff_epsilon(sums.log_moment, order, delta))
    if not 0 < epsilon < math.inf:
        return None
    return _Aim(groups.worst, sums, order, epsilon, delta, far=sums.mean + 3 * sums.deviation < epsilon)


def _least(function: Callable[[Array], Array], low: float, high: float) -> tuple[float, float]:
    """About where a unimodal function of a positive number is least, and its value."""
    for points in (12, 12, 9):
        at = np.geomspace(low, high, points)
        values = function(at)
        best = int(np.argmin(values))
        low, high = float(at[max(best - 1, 0)]), float(at[min(best + 1, points - 1)])
    return float(at[best]), float(values[best])


def _chernoff_epsilon(cumulant: Any, order: Any, delta: float) -> Any:
    """Solves delta = e^(K - order eps) (order / (order + 1))^order / (order + 1): Canonne, Kamath, Steinke 2020."""
    return (cumulant - math.log(delta) - np.log1p(order) - order * np.log1p(1 / order)) / order


@dataclass(frozen=True, slots=True)
class Groups:
    """For each group of similar parts its middle part, and its part with the least noise, standing for all of them."""

    typical: Parts
    worst: Parts
    sizes: Array

    @classmethod
    def of(cls, parts: Parts) -> Groups:
        if len(parts) <= _FEW:
            return cls(parts, parts, np.ones(len(parts)))
        for scale in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0):
            groups = alike(parts.rate[:, 0], parts.noise[:, 0], scale)
            if len(groups) <= _FEW:
                break
        count = np.array([[parts.count[group].sum()] for group in groups])
        middle = parts[np.array([group[len(group) // 2] for group in groups])]
        worst = parts[np.array([group[np.argmin(parts.noise[group, 0])] for group in groups])]
        sizes = np.array([float(len(group)) for group in groups])
        return cls(replace(middle, count=count), replace(worst, count=count), sizes)

    def take(self, plan: Plan, work: float) -> bool:
        """Whether an inversion by this plan takes about `work` at most: nodes x frequencies, summed over the parts."""
        where = (plan.order, plan.top, plan.need)
        if len(self.typical) <= _FEW:
            return are_enough(work / plan.size, self.typical, *where)
        return plan.size * float(self.sizes @ node_count(self.typical, *where)) <= work


@dataclass(frozen=True)
class Sums:
    """Sums over the tilted losses: log M with its error, mean and standard deviation, and the decay of |f|."""

    log_moment: float
    error: float
    mean: float
    deviation: float
    decays: list[Decay]

    @classmethod
    def of(cls, parts: Parts, order: float, need: float, *, moment_only: bool = False) -> Sums | None:
        """The sums at one order, at frequency 0, perhaps log M alone; None if that takes too many nodes."""
        if not are_enough(_MAX_NODES + _MAX_NODES_EACH * len(parts), parts, order, 0.0, need):
            return None
        log_moment = error = total = variance = 0.0
        decays = []
        finer = 1.0 if moment_only else 10.0 if len(parts) <= 4 else 5.0 if len(parts) <= 16 else 3.0
        for batch, nodes in rules(parts, order, 0.0, need, width=10, finer=finer):
            count, mean = batch.count, np.sum(nodes.weight * nodes.loss, axis=1, keepdims=True)
            log_moment += float(np.sum(count * nodes.log_moment))
            error += float(np.sum(count * (nodes.error + 4 * len(parts) * UNIT_ROUNDOFF * np.abs(nodes.log_moment))))
            if not moment_only:
                total += float(np.sum(count * mean))
                variance += float(np.sum(count * nodes.weight * (nodes.loss - mean) ** 2))
                decays.append(Decay.of(batch, order, nodes))
        return cls(log_moment, error, total, math.sqrt(variance), decays)

    @cached_property
    def truncation(self) -> tuple[Array, Array]:
        """Frequencies, and bounds on the sum over all frequencies from each on, relative to M(order).

        The modulus of F / M(order) is at most |f(t)| / t^2, and `Decay` bounds |f| by a function that falls with t. So
        the sum over all |t_j| > t is at most the integral, which is bounded on each interval of the ladder.
        """
        ladder = 2 / self.deviation * 1.5 ** np.arange(40)
        modulus = np.exp(np.sum([decay.log_bounds(ladder) for decay in self.decays], axis=0))
        each = modulus * (1 / ladder - np.append(1 / ladder[1:], 0.0))
        return ladder, np.cumsum(each[::-1])[::-1] * (1 + 1e-9) / math.pi
