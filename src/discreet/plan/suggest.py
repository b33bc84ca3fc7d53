"""A plan to start from: batch, steps, delta and noise for a population and a budget, each with its reason.

Nothing here looks at data. Settings are compared by the noise of the average gradient of the whole run: with T steps,
expected batch B, noise multiplier s and clip norm C it has standard deviation s C / (B sqrt(T)) in each coordinate, so
a smaller s / (B sqrt(T)) is better. Larger batches lower it at a fixed number of epochs, with less and less effect, and
so do more epochs; computing time limits both. The comparison uses the central limit theorem, an estimate; the noise of
the chosen setting is calibrated by a proved bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from discreet.accounting.theories.gdp import clt_noise, mu_for
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.plan.plan import Plan
from discreet.plan.sampling import Sampling
from discreet.sampling import FixedSizeSampling, PoissonSampling

_LEAST_STEPS = 300
"""Fewer steps train hardly any network."""

_WASTE = 1.1
"""A setting that needs less computing is taken if its noise is at most this many times the least possible."""

_SMALLEST_BATCH = 16
_CLIP_NORM = 1.0


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A calibrated plan, its number of epochs, and the reasons for it."""

    plan: Plan
    epochs: float
    reasons: tuple[str, ...]


def suggest(
    population: float,
    epsilon: float,
    delta: float | None = None,
    *,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    parameters: int | None = None,
    most_epochs: float = 100.0,
) -> Suggestion:
    """Suggest a plan for a declared public `population` and a budget.

    `parameters`: how many numbers the model trains; then the noise is compared with the gradient. `most_epochs`:
    passes over the data that there is time for. Errors as those of `Plan.make` and `Plan.calibrate`.
    """
    population = checks.positive("population", population)
    epsilon = checks.positive("epsilon", epsilon)
    most_epochs = checks.positive("most_epochs", most_epochs)
    delta, why_delta = _delta(population, delta)
    mu = mu_for(epsilon, delta)
    tried = [(*setting, _spread(population, *setting, mu)) for setting in _settings(population, most_epochs)]
    least = min(spread for _, _, spread in tried)
    epochs, batch, _ = next(setting for setting in tried if setting[2] <= _WASTE * least)
    plan = Plan.make(
        _sampling(population, batch, adjacency),
        population=population,
        steps=_steps(population, batch, epochs),
        clip_norm=_CLIP_NORM,
        delta=delta,
        adjacency=adjacency,
    ).calibrate(epsilon)
    reasons = [why_delta, *_reasons(plan, epochs, most_epochs), *_size(plan, parameters)]
    return Suggestion(plan, epochs, tuple(reasons))


def _settings(population: float, most_epochs: float) -> Iterator[tuple[float, int]]:
    """(epochs, batch) from cheap to dear: fewer epochs first, then smaller batches, which fit any memory."""
    epochs = [most_epochs / 2**halvings for halvings in range(5, -1, -1) if most_epochs / 2**halvings >= 1]
    for count in epochs or [most_epochs]:
        largest = max(1, round(min(population / 2, count * population / _LEAST_STEPS)))
        sizes = {round(largest / 2**halvings) for halvings in range(8)}
        yield from ((count, size) for size in sorted(sizes) if size >= min(_SMALLEST_BATCH, largest))


def _steps(population: float, batch: float, epochs: float) -> int:
    return max(1, round(epochs * population / batch))


def _sampling(population: float, batch: int, adjacency: Adjacency) -> Sampling:
    if adjacency is Adjacency.REPLACE_ONE:
        return FixedSizeSampling(batch=batch)
    return PoissonSampling(rate=batch / population)


def _spread(population: float, epochs: float, batch: int, mu: float) -> float:
    """An estimate of s / (B sqrt(T)). Replace-one, which doubles s, changes no comparison much."""
    steps = _steps(population, batch, epochs)
    return clt_noise(mu, batch / population, steps) / (batch * math.sqrt(steps))


def _delta(population: float, delta: float | None) -> tuple[float, str]:
    if delta is not None:
        return checks.open_unit("delta", delta), f"delta {delta:g}: as asked for"
    found = 10.0 ** -(math.floor(math.log10(population)) + 1)
    return (
        found,
        f"delta {found:g}: the power of ten below 1 / population, so that no single row may be given away whole",
    )


def _reasons(plan: Plan, epochs: float, most_epochs: float) -> Iterator[str]:
    kind, batch = plan.sampling.kind, plan.expected_batch
    if kind == "poisson":
        yield "sampling poisson: the best proved price, and the number of rows stays private"
    else:
        yield "sampling fixed_size: replace-one neighbours need batches of one size"
    yield (
        f"batch {batch:.6g}, {plan.steps} steps ({epochs:g} epochs): the least computing, of at most {most_epochs:g} "
        f"epochs and at least {_LEAST_STEPS} steps, whose noise is within {_WASTE - 1:.0%} of the least possible"
    )
    yield f"clip norm {_CLIP_NORM:g}: its size matters only together with the learning rate; tune that one"


def _size(plan: Plan, parameters: int | None) -> Iterator[str]:
    if parameters is None:
        return
    parameters = checks.count("parameters", parameters)
    one = plan.noise[0].multiplier * math.sqrt(parameters) / plan.expected_batch
    whole = one / math.sqrt(plan.steps)
    yield (
        f"{parameters} parameters: the noise of a step is {one:.3g} times as long as the longest average gradient, "
        f"averaged over the run {whole:.3g} times"
    )
    if whole > 1:
        yield "that is too much noise for this model: train fewer parameters (public features, a smaller network)"
