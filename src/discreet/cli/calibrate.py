"""`discreet calibrate`: the noise that a budget needs."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.accounting.account import Method
from discreet.accounting.calibrate import calibrate_noise
from discreet.cli import accounting_options as options
from discreet.core.adjacency import Adjacency


def calibrate(
    epsilon: Annotated[float, typer.Option("--epsilon", help="The budget to meet.")],
    delta: options.DeltaOption,
    sampling: options.SamplingOption = options.Sampling.POISSON,
    rate: options.RateOption = None,
    batch: options.BatchOption = None,
    population: options.PopulationOption = None,
    steps: options.StepsOption = None,
    epochs: options.EpochsOption = None,
    adjacency: options.AdjacencyOption = Adjacency.ADD_REMOVE,
    method: options.MethodOption = Method.PLD,
    as_json: options.JsonOption = False,
) -> None:
    """Find the smallest noise multiplier whose epsilon stays within the budget."""
    q = options.sampling_rate(sampling, rate, batch, population)
    count = options.step_count(steps, epochs, q)
    noise, met = calibrate_noise(lambda s: options.plan_event(q, s, count), epsilon, delta, adjacency, method)
    options.show(met, as_json, [("noise_multiplier", noise)])
