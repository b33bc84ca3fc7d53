"""What places say of their canaries: the logarithm of a likelihood ratio, in or out, from all steps together.

A score decides who is guessed, and nothing else: bounds hold for any score. So what follows may be rough where a law is
hard (several chosen steps of a period are taken as independent). It is right for Poisson batches, full batches, epochs,
allocation to one step of a period, and batches that take turns.
"""

from __future__ import annotations

import numpy as np

from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.plan import Plan

_FAR = 600.0


def evidence(moves: Array, noises: Array, plan: Plan) -> Array:
    """Log-likelihood ratios, shape (canaries,).

    `moves`: what each place was moved by at each step, in clipped canaries, shape (steps, canaries): 1 for a canary
    that is drawn, plus noise; -1 for the other row of a canary, under replace-one. `noises`: standard deviations,
    (steps,).
    """
    if len(plan.sampling.strategy) > 1:
        moves, noises = _matched(moves, noises, np.array(plan.sampling.strategy, dtype=np.float64))
    found = _of_world(1.0, moves, noises, plan)
    if plan.adjacency is Adjacency.REPLACE_ONE:
        found = found - _of_world(-1.0, moves, noises, plan)
    return found


def _of_world(value: float, moves: Array, noises: Array, plan: Plan) -> Array:
    """Log-likelihood ratios of a row that moves its place by `value` where it is drawn, against no row."""
    gains = np.clip((2 * value * moves - value**2) / (2 * np.square(noises)[:, None]), -_FAR, _FAR)
    period, rates = plan.sampler.period, _rates(plan, len(moves))[:, None]
    if len(plan.sampling.strategy) > 1:  # a row has the same turn in every round
        turns = [_drawn(gains[turn::period], rates[turn::period] * period) for turn in range(period)]
        return _mean(np.stack(turns))
    if period > 1 and rates[0, 0] * period < 1.5:  # a row is in one step of each period
        parts = [_mean(gains[start : start + period]) for start in range(0, len(gains), period)]
        total: Array = np.stack(parts).sum(axis=0)
        return total
    return _drawn(gains, rates)


def _drawn(gains: Array, rates: Array) -> Array:
    """Log-likelihood ratios of a row drawn independently at each step: the sum of log(1 - q + q e^gain)."""
    q = np.minimum(rates, 1.0)
    with np.errstate(divide="ignore"):
        found: Array = np.logaddexp(np.log1p(-q), np.log(q) + gains).sum(axis=0)
    return found


def _mean(gains: Array) -> Array:
    """Log-likelihood ratios of a row that is in one of several places, all equally likely: those of a mixture."""
    found: Array = np.logaddexp.reduce(gains, axis=0) - np.log(len(gains))
    return found


def _matched(moves: Array, noises: Array, strategy: Array) -> tuple[Array, Array]:
    """Moves with independent noise again (`mechanism.correlated`), each the best estimate of a draw at its step."""
    steps, bands = len(moves), len(strategy)
    beyond = np.zeros((bands - 1, moves.shape[1]))
    before, white = np.concatenate([beyond, moves]), np.zeros(moves.shape)
    for k, weight in enumerate(strategy):
        white += weight * before[bands - 1 - k : bands - 1 - k + steps]
    after, matched = np.concatenate([white, beyond]), np.zeros(moves.shape)
    for k, weight in enumerate(strategy):
        matched += weight * after[k : k + steps]
    squares = np.array([np.square(strategy[: steps - step]).sum() for step in range(steps)])
    return matched / squares[:, None], noises * np.linalg.norm(strategy) / np.sqrt(squares)


def _rates(plan: Plan, steps: int) -> Array:
    """The share of units that is in each step, on average; shape (steps,)."""
    return np.concatenate([np.full(count, batch / plan.population) for batch, count in plan.batches])[:steps]
