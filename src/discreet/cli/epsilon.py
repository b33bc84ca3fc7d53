"""`discreet epsilon`: what a fixed plan costs."""

from __future__ import annotations

from discreet.accounting.account import Method, account
from discreet.cli import accounting_options as options
from discreet.cli import sampling_options as sampler


def epsilon(
    delta: options.DeltaOption,
    sampling: sampler.SamplingOption = sampler.Sampling.POISSON,
    rate: sampler.RateOption = None,
    batch: sampler.BatchOption = None,
    population: sampler.PopulationOption = None,
    capacity: sampler.CapacityOption = None,
    per_epoch: sampler.PerEpochOption = None,
    chosen: sampler.ChosenOption = None,
    noise: options.NoiseOption = None,
    schedule: options.ScheduleOption = None,
    noise_list: options.NoiseListOption = None,
    steps: options.StepsOption = None,
    epochs: options.EpochsOption = None,
    adjacency: options.PlanAdjacencyOption = None,
    method: options.MethodOption = Method.PLD,
    as_json: options.JsonOption = False,
) -> None:
    """Bound the epsilon of a plan that is fixed before the data is seen."""
    draws = sampler.draws(sampling, rate, batch, population, capacity, per_epoch, chosen)
    adjacency = sampler.adjacency_for(sampling, adjacency)
    planned = options.planned_noise(draws, noise, noise_list, schedule, steps, epochs)
    options.show(account(planned.event(), delta, adjacency, method), as_json)
