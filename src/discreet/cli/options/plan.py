"""The options that describe a plan, for all commands that take them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from discreet.cli.options import accounting as options
from discreet.cli.options import sampling as sampler
from discreet.cli.options.shared import with_options
from discreet.core.adjacency import Adjacency
from discreet.sampling import Draws, Options


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options about a plan; each field is an option."""

    sampling: sampler.SamplingOption = sampler.DEFAULT
    rate: sampler.RateOption = None
    batch: sampler.BatchOption = None
    population: sampler.PopulationOption = None
    capacity: sampler.CapacityOption = None
    per_epoch: sampler.PerEpochOption = None
    chosen: sampler.ChosenOption = None
    bands: sampler.BandsOption = None
    full: sampler.FullOption = None
    noise: options.NoiseOption = None
    schedule: options.ScheduleOption = None
    noise_list: options.NoiseListOption = None
    steps: options.StepsOption = None
    epochs: options.EpochsOption = None
    adjacency: options.PlanAdjacencyOption = None

    @property
    def draws(self) -> Draws:
        """How batches are drawn."""
        return sampler.draws(Options(**{one.name: getattr(self, one.name) for one in fields(Options)}))

    @property
    def neighbours(self) -> Adjacency:
        """The requested adjacency, or the one under which the sampler has a theorem."""
        return sampler.adjacency_for(self.sampling, self.adjacency)

    def planned(self) -> options.PlannedNoise:
        """The noise over the steps."""
        return options.planned_noise(self.draws, self.noise, self.noise_list, self.schedule, self.steps, self.epochs)


with_plan = with_options(PlanOptions)
"""Gives `command(plan, ...)` the options of a plan in place of its first parameter."""
