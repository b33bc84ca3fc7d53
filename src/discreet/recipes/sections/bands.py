"""The section `bands` of a recipe: noise that is correlated over so many steps, or over the best number of them."""

from __future__ import annotations

from typing import Literal

from discreet.accounting.answers.bands import best_bands
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.plan import CyclicPoissonSampling, PoissonSampling, Sampling
from discreet.plan.sampling import Count

Bands = Count | Literal["auto"]


def in_turns(
    bands: Bands, rate: float, steps: int, epsilon: float | None, delta: float, adjacency: Adjacency
) -> Sampling:
    """Poisson batches of this rate with noise that is correlated over `bands` steps; one band is independent noise."""
    if bands == "auto":
        if epsilon is None:
            raise InputError("recipe: the best number of bands depends on the budget; give epsilon, or a number")
        bands = len(best_bands(rate, steps, epsilon, delta, adjacency).coefficients)
    return PoissonSampling(rate=rate) if bands == 1 else CyclicPoissonSampling.of_bands(rate, bands, steps)
