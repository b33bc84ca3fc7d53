"""The options that describe a plan, once for all commands that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from discreet.cli import accounting_options as options
from discreet.cli import sampling_options as sampler
from discreet.core.adjacency import Adjacency


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the command line says about a plan; each field is an option."""

    sampling: sampler.SamplingOption = sampler.Sampling.POISSON
    rate: sampler.RateOption = None
    batch: sampler.BatchOption = None
    population: sampler.PopulationOption = None
    capacity: sampler.CapacityOption = None
    per_epoch: sampler.PerEpochOption = None
    chosen: sampler.ChosenOption = None
    noise: options.NoiseOption = None
    schedule: options.ScheduleOption = None
    noise_list: options.NoiseListOption = None
    steps: options.StepsOption = None
    epochs: options.EpochsOption = None
    adjacency: options.PlanAdjacencyOption = None

    @property
    def draws(self) -> sampler.Draws:
        """How batches are drawn."""
        return sampler.draws(
            self.sampling, self.rate, self.batch, self.population, self.capacity, self.per_epoch, self.chosen
        )

    @property
    def neighbours(self) -> Adjacency:
        """The adjacency asked for, or that under which the sampler has a theorem."""
        return sampler.adjacency_for(self.sampling, self.adjacency)

    def planned(self) -> options.PlannedNoise:
        """The noise over the steps."""
        return options.planned_noise(self.draws, self.noise, self.noise_list, self.schedule, self.steps, self.epochs)


def with_plan(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command(plan, ...)` the options of `PlanOptions` in place of its first parameter."""
    own = get_type_hints(command, include_extras=True)
    shared = get_type_hints(PlanOptions, include_extras=True)
    parameters = list(inspect.signature(command).parameters.values())[1:]
    described = [(p.name, p.default, own[p.name]) for p in parameters]
    described += [(field.name, field.default, shared[field.name]) for field in fields(PlanOptions)]

    def run(**values: Any) -> None:
        plan = PlanOptions(**{field.name: values.pop(field.name) for field in fields(PlanOptions)})
        command(plan, **values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {name: kind for name, _, kind in described} | {"return": None}
    kind = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind, default=default, annotation=hint) for name, default, hint in described]
    )
    return run
