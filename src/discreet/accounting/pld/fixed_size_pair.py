"""The pair of one release on a batch of fixed size, drawn without replacement, under replace-one adjacency.

If a mechanism on batches has the trade-off curve f, then on a random batch that holds each unit with probability q
it has C_q(f) = min{f_q, f_q^-1}** with f_q = q f + (1 - q) Id (Dong, Roth, Su 2019, Theorem 4.2). Which of the two
curves is lower depends on the false positive rate, so they are joined **before** steps are composed. Composing each
direction separately and taking the maximum, as for Poisson batches, is not proved here.

For Gaussian noise f_q and f_q^-1 are the curves of the removal and the addition pair of `poisson_pair`, whose profiles
cross at epsilon 0 only. The profile of C_q(f) is their maximum: removal's for epsilon >= 0, addition's below. Hence
the pair with exactly that curve keeps, of each direction, the outcomes x > 1/2 (removal's with losses l(x) > 0,
addition's with losses -l(x) < 0), and both of its distributions put the remaining mass,

    1 - P(x > 1/2) - Q(x > 1/2) = (1 - q) erf(1 / (2 sqrt(2) s)),

on one more outcome, of loss 0: the common tangent of the two curves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erf

from discreet.accounting.pld.poisson_pair import UNIT_ROUNDOFF, Bins, Pair, gaussian_masses, outcome
from discreet.core.array_types import Array


@dataclass(frozen=True, slots=True)
class SymmetricPair(Pair):
    """`Pair` for batches of fixed size: `rate` = batch / population, `noise` relative to a replacement.

    Its outcomes y stand for x = 1/2 + |y| of the removal pair (y > 0) or of the addition pair (y < 0), so that the
    loss is odd in y. `direction` has no meaning: the pair is its own mirror image.
    """

    @property
    def level(self) -> Array:
        """The mass of the outcome with loss 0, in both distributions."""
        result: Array = (1 - np.asarray(self.rate)) * erf(1 / (math.sqrt(8) * np.asarray(self.noise)))
        return result

    def loss(self, x: Array) -> Array:
        """Privacy loss of the outcomes y = `x`."""
        return np.copysign(np.maximum(Pair.removal_loss(self, 0.5 + np.abs(x)), 0.0), x)

    def support(self, tail: float) -> Array:
        """Outcomes (low, high) outside which either distribution has at most about `tail` mass on each side."""
        reach = Pair.support(self, tail)[..., 1:] - 0.5
        return np.concatenate([-reach, reach], axis=-1)

    def bins(self, edges: Array) -> Bins:
        """Masses of both distributions between consecutive loss `edges`, as `Pair.bins`."""
        null_up, mixed_up, null_up_error, mixed_up_error = self._half(edges)
        down = self._half(-edges[..., ::-1])
        null_down, mixed_down, null_down_error, mixed_down_error = (array[..., ::-1] for array in down)
        end = np.full((*edges.shape[:-1], 1), np.inf)
        holds_zero = (np.concatenate((-end, edges), axis=-1) < 0) & (np.concatenate((edges, end), axis=-1) >= 0)
        level = np.where(holds_zero, self.level, 0.0)
        p, q = mixed_up + null_down + level, null_up + mixed_down + level
        p_error = mixed_up_error + null_down_error + 16 * UNIT_ROUNDOFF * p
        q_error = null_up_error + mixed_down_error + 16 * UNIT_ROUNDOFF * q
        inner = (..., slice(1, -1))
        below, above = p[..., 0] + p_error[..., 0], p[..., -1] + p_error[..., -1]
        return Bins(p[inner], q[inner], p_error[inner], q_error[inner], below, above)

    def quadrature(self, tail: float) -> tuple[Array, Array]:
        """Losses and log-masses of one release on an even grid of outcomes, as `Pair.quadrature`."""
        high = float(self.support(tail)[1])
        y = np.linspace(0, high, int(high / (0.1 * float(self.noise))) + 3)[1:]
        null = -0.5 * ((0.5 + y) / self.noise) ** 2 + math.log(y[0] / (float(self.noise) * math.sqrt(2 * math.pi)))
        loss = self.loss(y)
        with np.errstate(divide="ignore"):
            level = np.log(np.atleast_1d(self.level))
        log_p = np.concatenate((null, level, null + loss))
        top = log_p.max()
        log_total = top + math.log(float(np.exp(log_p - top).sum()))
        return np.concatenate((-loss, [0.0], loss)), log_p - log_total

    def _half(self, edges: Array) -> tuple[Array, Array, Array, Array]:
        """Null and mixed masses, and bounds on their errors, of the outcomes x > 1/2 with l(x) between the `edges`.

        There is one more interval on each side, below the first edge and above the last. Empty intervals have no error.
        """
        half = np.full((*np.broadcast_shapes(edges.shape, np.shape(self.rate))[:-1], 1), 0.5)
        x = np.maximum(np.where(edges > 0, outcome(self, np.maximum(edges, 0.0)), 0.5), 0.5)
        x = np.concatenate((half, x), axis=-1)
        empty = np.concatenate((x[..., 1:] <= 0.5, np.zeros_like(half, dtype=bool)), axis=-1)
        null, null_error = (np.where(empty, 0.0, part[..., 1:]) for part in gaussian_masses(x / self.noise))
        shifted, error = (np.where(empty, 0.0, part[..., 1:]) for part in gaussian_masses((x - 1) / self.noise))
        mixed = (1 - self.rate) * null + self.rate * shifted
        mixed_error = (1 - self.rate) * null_error + self.rate * error + 4 * UNIT_ROUNDOFF * mixed
        return null, mixed, null_error, mixed_error
