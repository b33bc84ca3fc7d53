"""What docs/methods/adadp.md states figures of: the example of Lemma 1, paths on the Beale function, and the leak of
ADADP as published. Drawn by adadp.py."""

from __future__ import annotations

import math

import numpy as np

from discreet.methods import adadp
from discreet.methods.adadp_as_published import Course, Gradients, Printed, adadp_as_published
from discreet_papers.measure.beale import ALIKE, Walk, beale, beale_gradient, course, mean_distance

__all__ = ["ALIKE", "LEAK", "LEMMA", "Walk", "beale", "beale_gradient", "mean_distance"]

LEMMA = {"in proportion": (17.0, 8.5), "all alike": (math.sqrt(180),) * 2, "the other way": (12.4, 24.8)}
"""Noise for sensitivities (12, 6), all at multiplier 1."""


def similarity(
    noise: tuple[float, float],
    generator: np.random.Generator,
    draws: int = 10_000,
    unit: tuple[float, float] = (1.0, 1.0),
) -> float:
    """The mean cosine of (10, 5) and of the same with noise, both divided by `unit`."""
    truth = np.array([10.0, 5.0])
    noisy = (truth + generator.standard_normal((draws, 2)) * noise) / unit
    truth = truth / unit
    return float(np.mean(noisy @ truth / np.linalg.norm(noisy, axis=1) / np.linalg.norm(truth)))


LEAK = Printed(steps=10, multiplier=8.0, lr=0.05, lot=20.0)
"""Few steps under much noise: whoever is told of them learns next to nothing, or should."""

_OTHERS = np.random.default_rng(0).normal(size=(20, 2))


def member_gradients(member: bool) -> Gradients:
    """Twenty examples with gradients in the first two numbers, and perhaps one whose gradient is in the third."""
    rows = np.zeros((20 + member, 3))
    rows[:20, :2] = _OTHERS
    rows[20:, 2] = 1.0
    return lambda point: rows


def published_path(member: bool, seed: int) -> Course:
    """ADADP as published, on data with or without the member."""
    return adadp_as_published(member_gradients(member), np.zeros(3), LEAK, np.random.default_rng([seed, member]))


def corrected_path(member: bool, seed: int) -> Course:
    """The corrected one, on the same data."""
    generator = np.random.default_rng([seed, member])
    return course(
        member_gradients(member),
        np.zeros(3),
        lambda model: adadp(model, LEAK.lr, clip_norm=LEAK.clip_norm),
        LEAK.multiplier,
        generator,
        LEAK.steps,
        LEAK.lot,
    )


def movement(path: Course) -> float:
    """How far the third number went after the first step, which is clipped globally."""
    return float(np.abs(np.diff(path.points[1:, 2])).sum())
