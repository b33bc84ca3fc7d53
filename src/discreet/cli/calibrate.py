"""`discreet calibrate`: the noise that a budget needs, or the rate of a noise schedule."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.accounting import schedules, zcdp
from discreet.accounting.account import Method, guarantee
from discreet.accounting.calibrate import calibrate_noise
from discreet.cli import accounting_options as options
from discreet.cli import sampling_options as sampler
from discreet.cli.figures import rounded_up
from discreet.core import checks
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved

RhoOption = Annotated[
    float | None,
    typer.Option("--rho", help="A zCDP budget for --schedule, in epochs of disjoint batches or without sampling."),
]


def calibrate(
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="The budget to meet.")] = None,
    rho: RhoOption = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Delta of the guarantee.")] = None,
    sampling: sampler.SamplingOption = sampler.Sampling.POISSON,
    rate: sampler.RateOption = None,
    batch: sampler.BatchOption = None,
    population: sampler.PopulationOption = None,
    capacity: sampler.CapacityOption = None,
    per_epoch: sampler.PerEpochOption = None,
    chosen: sampler.ChosenOption = None,
    schedule: options.ScheduleOption = None,
    steps: options.StepsOption = None,
    epochs: options.EpochsOption = None,
    adjacency: options.PlanAdjacencyOption = None,
    method: options.MethodOption = Method.PLD,
    as_json: options.JsonOption = False,
) -> None:
    """Find the smallest noise multiplier within a budget, or the rate of a schedule that lasts for --epochs."""
    if (epsilon is None) == (rho is None):
        raise InputError("give either --epsilon with --delta, or --rho with --schedule")
    if rho is not None:
        _rate_for_rho(rho, schedule, epochs, sampling, adjacency, delta, as_json)
        return
    assert epsilon is not None
    if delta is None:
        raise InputError("--epsilon needs --delta")
    adjacency = sampler.adjacency_for(sampling, adjacency)
    draws = sampler.draws(sampling, rate, batch, population, capacity, per_epoch, chosen)
    if schedule is not None:
        _rate_for_epsilon(schedule, draws, _whole(epochs), (epsilon, delta, adjacency, method), as_json)
        return
    count = options.step_count(steps, epochs, draws.rate)
    noise, met = calibrate_noise(lambda s: draws.uniform(s, count), epsilon, delta, adjacency, method)
    options.show(met, as_json, [("noise_multiplier", noise)])


def _rate_for_epsilon(
    schedule: str, draws: sampler.Draws, epochs: int, budget: tuple[float, float, Adjacency, Method], as_json: bool
) -> None:
    epsilon, delta, adjacency, method = budget
    checks.positive("--epsilon", epsilon)

    def event(shape: schedules.Schedule, count: int) -> options.PlannedNoise:
        steps = options.step_count(None, count, draws.rate)
        return options.PlannedNoise(draws, tuple(shape.phases(steps, draws.rate)))

    def fits(shape: schedules.Schedule, count: int) -> bool:
        try:
            releases = event(shape, count).event()
        except InputError:  # the noise has fallen to nothing
            return False
        rough = guarantee(releases, delta, adjacency, method, lambda found: 0.05 * found)
        if rough.epsilon <= epsilon or (rough.lower or 0.0) > epsilon:
            return rough.epsilon <= epsilon
        return guarantee(releases, delta, adjacency, method).epsilon <= epsilon

    found = schedules.solve_rate(_without_rate(schedule), fits, epochs)
    assert found.rate is not None
    met = guarantee(event(found, epochs).event(), delta, adjacency, method)
    options.show(met, as_json, [("rate", found.rate)])


def _rate_for_rho(
    rho: float,
    schedule: str | None,
    epochs: float | None,
    sampling: sampler.Sampling,
    adjacency: Adjacency | None,
    delta: float | None,
    as_json: bool,
) -> None:
    """Yu et al. 2019, Theorem 2: an epoch costs its dearest batch, and epochs add up."""
    checks.positive("--rho", rho)
    if schedule is None:
        raise InputError("--rho needs --schedule (and --epochs); to calibrate the noise itself give --epsilon")
    if sampling not in (sampler.Sampling.POISSON, sampler.Sampling.SHUFFLE, sampler.Sampling.NONE):
        raise NotProved("--rho counts epochs of disjoint batches; use --sampling shuffle, or --sampling none")
    if adjacency is None:
        adjacency = Adjacency.ADD_REMOVE if sampling is sampler.Sampling.NONE else Adjacency.ZERO_OUT
    if adjacency is Adjacency.ADD_REMOVE and sampling is not sampler.Sampling.NONE:
        raise NotProved("--rho counts epochs of disjoint batches; use --adjacency zero_out, or --sampling none")
    ratio = 4.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    found = schedules.solve_rate(
        _without_rate(schedule), lambda shape, count: ratio * shape.rho(count) <= rho * (1 + 1e-9), _whole(epochs)
    )
    spent = ratio * found.rho(_whole(epochs)) * (1 + 1e-12)
    fields: dict[str, object] = {"rate": found.rate, "epochs": _whole(epochs), "rho": spent, "budget": rho}
    fields |= {"adjacency": adjacency.value, "method": "zcdp", "kind": "guarantee"}
    if delta is not None:
        fields |= {"epsilon": zcdp.epsilon(spent, delta), "delta": delta}
    if as_json:
        options.echo_json(fields)
        return
    converted = "" if delta is None else f", epsilon {rounded_up(float(str(fields['epsilon'])))} at delta {delta:g}"
    typer.echo(
        f"rate {found.rate:.6g}: rho {spent:.6g} of {rho:g} after {fields['epochs']} epochs{converted}, "
        f"{adjacency.value}, proved by zcdp for epochs of disjoint batches or without sampling"
    )


def _without_rate(schedule: str) -> schedules.Schedule:
    shape = schedules.parse(schedule)
    if shape.rate is not None:
        raise InputError(f"--schedule {schedule}: calibrate finds the rate; leave it out")
    if shape.per_step:
        raise InputError(f"--schedule {schedule}: calibrate counts epochs; leave out per=step")
    return shape


def _whole(epochs: float | None) -> int:
    if epochs is None or not epochs >= 1 or epochs != int(epochs):
        raise InputError(f"--epochs must be a whole number of at least 1 to calibrate a --schedule, got {epochs!r}")
    return int(epochs)
