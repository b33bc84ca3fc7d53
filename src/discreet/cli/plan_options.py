"""The options that describe a plan, once for all commands that take them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from discreet.cli import accounting_options as options


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the command line says about a plan; each field is an option."""

    sampling: options.SamplingOption = options.Sampling.POISSON
    rate: options.RateOption = None
    batch: options.BatchOption = None
    population: options.PopulationOption = None
    noise: options.NoiseOption = None
    schedule: options.ScheduleOption = None
    noise_list: options.NoiseListOption = None
    steps: options.StepsOption = None
    epochs: options.EpochsOption = None

    @property
    def sampling_rate(self) -> float:
        """The sampling rate."""
        return options.sampling_rate(self.sampling, self.rate, self.batch, self.population)

    def planned(self) -> options.PlannedNoise:
        """The noise over the steps."""
        return options.planned_noise(
            self.sampling_rate, self.noise, self.noise_list, self.schedule, self.steps, self.epochs
        )


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
