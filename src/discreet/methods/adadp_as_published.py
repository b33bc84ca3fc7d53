"""ADADP as printed in its Algorithm 1, to show what it reveals. It is not private.

Line 23 averages squares of the raw mean gradient, and lines 9 and 12 set clipping and noise by that average. So the
noise itself depends on the data: a number of the gradient that is zero but for one example has noise only if that
example is there.

The function trains on its own and returns plain arrays, without plan, ledger, release or certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discreet.core import checks
from discreet.core.array_types import Array
from discreet.core.errors import InputError

Gradients = Callable[[Array], Array]
"""The gradients of all examples at a point of shape (numbers,): shape (examples, numbers)."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The settings of Algorithm 1. `multiplier` is sigma_*, `rate` the probability with which an example is in a lot,
    and `lot` the L that sums are divided by."""

    steps: int
    multiplier: float
    lr: float
    lot: float = 1.0
    rate: float = 1.0
    clip_norm: float = 4.0
    beta: float = 1.2
    gamma: float = 0.1
    decay: float = 0.9
    threshold: float = 1e-6
    eps: float = 1e-8

    def __post_init__(self) -> None:
        checks.count("steps", self.steps)
        checks.rate("rate", self.rate)
        for name in ("gamma", "decay"):
            checks.open_unit(name, getattr(self, name))
        for name in ("lr", "lot", "clip_norm", "beta", "eps"):
            checks.positive(name, getattr(self, name))
        for name in ("multiplier", "threshold"):
            checks.nonnegative(name, getattr(self, name))


@dataclass(frozen=True, slots=True)
class Course:
    """The course of a training: `points`, the weights before the first and after every step, shape (steps + 1,
    numbers); `noise`, the standard deviation on each number of the sum in every step, shape (steps, numbers). Both
    reveal private data."""

    points: Array
    noise: Array


def adadp_as_published(gradients: Gradients, start: Array, settings: Printed, generator: np.random.Generator) -> Course:
    """Algorithm 1 with line 23 as printed: not private, whatever the multiplier.

    Line 25 has the raw gradient where section III-A has the noisy one; the latter is used, or weights would be the data
    themselves. Randomness is ordinary. `InputError` if gradients are not of shape (examples, numbers).
    """
    point = np.array(start, np.float64)
    squares, rates = np.zeros_like(point), np.zeros_like(point)
    points, noise = [point.copy()], []
    for _ in range(settings.steps):
        rows = np.asarray(gradients(point), np.float64)
        if rows.ndim != 2 or rows.shape[1:] != point.shape:
            raise InputError(f"gradients must have shape (examples, {len(point)}), got {rows.shape}")
        rows = rows[generator.random(len(rows)) < settings.rate]
        clipped, std = _clipped(rows, squares, settings)
        mean = (clipped.sum(0) + std * generator.standard_normal(len(point))) / settings.lot
        rates = (1 - settings.gamma) * rates + settings.gamma * mean**2  # line 22
        raw = rows.sum(0) / settings.lot
        squares = settings.decay * squares + (1 - settings.decay) * raw**2  # line 23: the leak
        point = point - settings.lr * mean / np.sqrt(rates + settings.eps)
        points.append(point.copy())
        noise.append(std)
    return Course(np.array(points), np.array(noise))


def _clipped(rows: Array, squares: Array, settings: Printed) -> tuple[Array, Array]:
    """The rows after lines 7 to 19, and the standard deviation of the noise on each number of their sum."""
    roots = np.sqrt(squares)
    if np.var(roots) > settings.threshold:
        sides = settings.beta * roots
        return np.clip(rows, -sides, sides), settings.multiplier * np.sqrt(len(roots)) * sides
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    global_std = np.full(len(roots), settings.multiplier * settings.clip_norm)
    return rows / np.maximum(1.0, lengths / settings.clip_norm), global_std
