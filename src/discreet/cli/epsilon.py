"""`discreet epsilon`: what a fixed plan costs."""

from __future__ import annotations

from typing import Annotated

import typer

from discreet.accounting.account import Method, guarantee
from discreet.cli import accounting_options as options
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError


def epsilon(
    delta: options.DeltaOption,
    sampling: options.SamplingOption = options.Sampling.POISSON,
    rate: options.RateOption = None,
    batch: options.BatchOption = None,
    population: options.PopulationOption = None,
    noise: Annotated[float | None, typer.Option("--noise", help="Noise std / one unit's contribution.")] = None,
    noise_list: options.NoiseListOption = None,
    steps: options.StepsOption = None,
    epochs: options.EpochsOption = None,
    adjacency: options.AdjacencyOption = Adjacency.ADD_REMOVE,
    method: options.MethodOption = Method.PLD,
    as_json: options.JsonOption = False,
) -> None:
    """Bound the epsilon of a plan that is fixed before the data is seen."""
    q = options.sampling_rate(sampling, rate, batch, population)
    if (noise is None) == (noise_list is None):
        raise InputError("give either --noise with --steps or --epochs, or --noise-list FILE")
    if noise_list is not None:
        if steps is not None or epochs is not None:
            raise InputError("--noise-list counts its own steps; leave out --steps and --epochs")
        event = options.read_noise_list(noise_list, q)
    else:
        assert noise is not None
        event = options.plan_event(q, noise, options.step_count(steps, epochs, q))
    options.show(guarantee(event, delta, adjacency, method), as_json)
