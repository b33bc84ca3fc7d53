"""`discreet epsilon`: what a fixed plan costs."""

from __future__ import annotations

from discreet.accounting.account import Method, account
from discreet.cli import accounting_options as options
from discreet.core.adjacency import Adjacency


def epsilon(
    delta: options.DeltaOption,
    sampling: options.SamplingOption = options.Sampling.POISSON,
    rate: options.RateOption = None,
    batch: options.BatchOption = None,
    population: options.PopulationOption = None,
    noise: options.NoiseOption = None,
    schedule: options.ScheduleOption = None,
    noise_list: options.NoiseListOption = None,
    steps: options.StepsOption = None,
    epochs: options.EpochsOption = None,
    adjacency: options.AdjacencyOption = Adjacency.ADD_REMOVE,
    method: options.MethodOption = Method.PLD,
    as_json: options.JsonOption = False,
) -> None:
    """Bound the epsilon of a plan that is fixed before the data is seen."""
    q = options.sampling_rate(sampling, rate, batch, population)
    planned = options.planned_noise(q, noise, noise_list, schedule, steps, epochs)
    options.show(account(planned.event(), delta, adjacency, method), as_json)
