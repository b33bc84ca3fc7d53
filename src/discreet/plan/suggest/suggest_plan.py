"""A plan to start from: batch, steps, delta and noise for a population and a budget, each with its reason.

Nothing here looks at data. Settings are compared by the noise of the average gradient of the whole run: with T steps,
expected batch B, noise multiplier s and clip norm C it has standard deviation s C / (B sqrt(T)) in each coordinate, so
a smaller s / (B sqrt(T)) is better. Larger batches lower it at a fixed number of epochs, with less and less effect, and
so do more epochs; computing time limits both. The comparison uses the central limit theorem, an estimate; the noise of
the chosen setting is calibrated by a proved bound.

For that setting three ways to draw are compared, by the noise in the sums of gradients that the weights are made of:
Poisson batches; noise that is correlated over steps (`accounting.answers.bands`), if that has clearly less of it; and
random allocation, which costs a little less than Poisson batches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from discreet.accounting.account import guarantee
from discreet.accounting.answers.bands import best_bands
from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.accounting.theories.gdp import clt_noise, mu_for
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import Allocation, Gaussian, Poisson, Repeat
from discreet.core.rounding import delta_up
from discreet.plan.plan import Plan
from discreet.plan.sampling import Sampling
from discreet.sampling import AllocationSampling, CyclicPoissonSampling, FixedSizeSampling, PoissonSampling

_LEAST_STEPS = 300
"""Fewer steps train hardly any network."""

_FEWEST, _MOST, _LARGEST = 2, 1e12, 700
_WASTE = 1.1
"""A setting that needs less computing is taken if its noise is at most this many times the least possible."""

_CORRELATED = 0.85
"""Correlated noise is taken if it leaves at most this share of the noise in sums: less is hardly seen in accuracy."""

_ROUNDS_OF = 16
"""Steps are a multiple of this where noise is correlated, so that many numbers of bands divide them."""

_LONGEST_PERIOD = 200
"""Allocation is priced for periods up to this; longer ones take minutes to calibrate."""

_CHEAPER = 0.98
"""Allocation is taken if its epsilon at the same noise is at most this share of that of Poisson batches."""

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
    poisson: bool = False,
    clip_norm: float = _CLIP_NORM,
) -> Suggestion:
    """Suggest a plan for a declared public `population` and a budget.

    `parameters`: how many numbers the model trains; then the noise is compared with the gradient. `most_epochs`:
    passes over the data that there is time for. `poisson`: with Poisson batches, without a look at what others would
    cost, which takes seconds. `clip_norm`: that of the plan. Errors as those of `Plan.make` and `Plan.calibrate`.
    """
    population = checks.positive("population", population)
    if not _FEWEST <= population <= _MOST:
        raise InputError(f"population must be a number of people from {_FEWEST} to {_MOST:g}, got {population:g}")
    if not (epsilon := checks.positive("epsilon", epsilon)) <= _LARGEST:
        raise InputError(f"epsilon must be at most {_LARGEST}, got {epsilon:g}: e to its power promises nothing")
    most_epochs = checks.positive("most_epochs", most_epochs)
    delta, why_delta = _delta(population, delta)
    mu = mu_for(epsilon, delta)
    tried = [(*setting, _spread(population, *setting, mu)) for setting in _settings(population, most_epochs)]
    least = min(spread for _, _, spread in tried)
    epochs, batch, _ = next(setting for setting in tried if setting[2] <= _WASTE * least)
    steps = _steps(population, batch, epochs)
    sampling: Sampling = PoissonSampling(rate=batch / population)
    why = "sampling poisson: as asked for"
    if not poisson:
        sampling, steps, why = _sampling(population, batch, steps, epsilon, delta, adjacency)
    plan = Plan.make(
        sampling, population=population, steps=steps, clip_norm=clip_norm, delta=delta, adjacency=adjacency
    ).calibrate(epsilon)
    reasons = [why_delta, why, *_reasons(plan, epochs, most_epochs), *_size(plan, parameters)]
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


def _sampling(
    population: float, batch: int, steps: int, epsilon: float, delta: float, adjacency: Adjacency
) -> tuple[Sampling, int, str]:
    """How batches are drawn, in how many steps, and why."""
    if adjacency is Adjacency.REPLACE_ONE:
        why = "sampling fixed_size: replace-one neighbours need batches of one size"
        return FixedSizeSampling(batch=batch), steps, why
    rate, rounds = batch / population, steps - steps % _ROUNDS_OF or steps
    found = best_bands(rate, rounds, epsilon, delta, adjacency)
    if found.gain <= _CORRELATED:
        bands = len(found.coefficients)
        why = (
            f"sampling cyclic_poisson with {bands} bands: noise that is correlated over {bands} steps leaves "
            f"{found.gain:.0%} of the noise in sums of gradients; it needs memory for {2 * bands - 2} gradients"
        )
        return CyclicPoissonSampling.of_bands(rate, bands, rounds), rounds, why
    period = math.ceil(population / batch)
    whole = steps - steps % period
    if period <= min(steps, _LONGEST_PERIOD) and _is_cheaper(period, whole, rate, epsilon, delta, adjacency):
        why = (
            "sampling allocation: every row is in one step of each pass, which costs less than Poisson batches, where "
            "some are drawn twice by bad luck"
        )
        return AllocationSampling(period=period), whole, why
    return PoissonSampling(rate=rate), steps, "sampling poisson: a proved price, and the number of rows stays private"


def _is_cheaper(period: int, steps: int, rate: float, epsilon: float, delta: float, adjacency: Adjacency) -> bool:
    """Whether allocation in periods costs clearly less than Poisson batches with the noise that `epsilon` needs."""
    noise, poisson = calibrate_noise(
        lambda noise: Repeat(Poisson(rate, Gaussian(noise)), steps), epsilon, delta, adjacency
    )
    event = Repeat(Allocation(period, 1, Gaussian(noise)), steps // period)
    return guarantee(event, delta, adjacency).epsilon <= _CHEAPER * poisson.epsilon


def _spread(population: float, epochs: float, batch: int, mu: float) -> float:
    """An estimate of s / (B sqrt(T)). Replace-one, which doubles s, changes no comparison much."""
    steps = _steps(population, batch, epochs)
    return clt_noise(mu, batch / population, steps) / (batch * math.sqrt(steps))


def _delta(population: float, delta: float | None) -> tuple[float, str]:
    if delta is not None:
        return checks.open_unit("delta", delta), f"delta {delta_up(delta)}: as asked for"
    found = checks.default_delta(population)
    return (
        found,
        f"delta {found:g}: the power of ten below 1 / population, so that no single row may be given away whole",
    )


def _reasons(plan: Plan, epochs: float, most_epochs: float) -> Iterator[str]:
    yield (
        f"batch {plan.expected_batch:.6g}, {plan.steps} steps ({epochs:g} epochs): the least computing, of at most "
        f"{most_epochs:g} epochs and at least about {_LEAST_STEPS} steps, whose noise is within {_WASTE - 1:.0%} of "
        "the least possible"
    )
    norm = plan.clipping.first_norm
    yield f"clip norm {norm:g}: its size matters only together with the learning rate; tune that one"


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
