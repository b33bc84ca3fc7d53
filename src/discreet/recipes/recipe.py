"""`Recipe`: everything `discreet train` needs, validated field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import yaml
from pydantic import Field, field_validator, model_validator
from torch import nn

from discreet.accounting import schedules
from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.data import DATASETS, Split
from discreet.plan import AdaptivePlan, Counts, NoSampling, Plan, PoissonSampling, Sampling, ShuffleSampling
from discreet.plan.plan import Delta, Positive
from discreet.plan.policies import Policy
from discreet.plan.sampling import Count, Rate
from discreet.plan.validation import Frozen, read_yaml, validate
from discreet.recipes.models import MODELS

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adagrad": torch.optim.Adagrad,
    "rmsprop": torch.optim.RMSprop,
}


class Named(Frozen):
    """Something from a table, with the arguments for it as further keys."""

    model_config = Frozen.model_config | {"extra": "allow"}
    name: str

    def build(self, table: Mapping[str, Any], *first: Any) -> Any:
        """Call the entry `name` of `table` with these arguments."""
        try:
            return table[self.name](*first, **(self.model_extra or {}))
        except (TypeError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"recipe: {self.name} cannot take these arguments: {reason}") from None


class Adaptive(Frozen):
    """What a recipe says of a run that is chosen on the way; the fields are those of `AdaptivePlan`."""

    policy: Policy
    noise_multiplier: Positive
    every: Positive = 1.0
    counts: Counts | None = None
    filter: str | None = None


class Recipe(Frozen):
    """A training run in one file.

    `population`, `rate` (of Poisson sampling) or `sampling` (any other kind), `steps`, `clip_norm`, `adjacency`,
    `unit` and `rows_per_unit` describe the plan; its noise is calibrated to (`epsilon`, `delta`). Under add/remove
    none of them is read off the data. `schedule` (`exponential:initial=10,rate=0.01`) is the noise over time: its
    shape, scaled to `epsilon`, or all of it if there is no epsilon. `adaptive` leaves the noise to a policy, within
    `epsilon` and at most `steps`. `validation` is the share of the public test rows that policies and `patience` look
    at; metrics of the test are on the others. `patience` stops after so many evaluations without a better validation
    accuracy, and keeps the best. `engine`, `autocast` and `fixed_rows` are those of `discreet.EngineOptions`.
    """

    data: str
    model: Named
    optimizer: Named
    population: Positive
    rate: Rate | None = None
    sampling: Sampling | None = None
    steps: Count
    clip_norm: Positive
    epsilon: Positive | None = None
    delta: Delta
    schedule: str | None = None
    adaptive: Adaptive | None = None
    validation: Annotated[float, Field(ge=0, lt=1)] = 0.0
    patience: Count | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: Unit = Unit.EXAMPLE
    rows_per_unit: Count = 1
    engine: str = "auto"
    autocast: Literal["bfloat16"] | None = None
    fixed_rows: bool = False
    noise: str = "fast"
    evaluate_every: Annotated[int | None, Field(ge=1)] = None

    @field_validator("data")
    @classmethod
    def _known_data(cls, value: str) -> str:
        return _known(value, DATASETS)

    @field_validator("model")
    @classmethod
    def _known_model(cls, value: Named) -> Named:
        _known(value.name, MODELS)
        return value

    @field_validator("optimizer")
    @classmethod
    def _known_optimizer(cls, value: Named) -> Named:
        _known(value.name, OPTIMIZERS)
        return value

    @model_validator(mode="after")
    def _one_way_to_draw(self) -> Recipe:
        if (self.rate is None) == (self.sampling is None):
            raise ValueError("give either rate (for Poisson sampling) or sampling")
        if self.epsilon is None and (self.schedule is None or self.adaptive is not None):
            raise ValueError("give epsilon (only a schedule does without)")
        if self.patience is not None and not self.validation:
            raise ValueError("patience needs validation, the share of the public test rows that it looks at")
        if self.schedule is not None and self.adaptive is not None:
            raise ValueError("give either schedule (fixed beforehand) or adaptive (chosen on the way)")
        return self

    def plan(self) -> Plan | AdaptivePlan:
        """The plan, its noise calibrated to the budget; an adaptive one has a filter for it."""
        if self.adaptive is not None:
            return self._adaptive_plan(self.adaptive)
        plan = Plan.make(
            self._sampling,
            population=self.population,
            steps=self.steps,
            clip_norm=self.clip_norm,
            delta=self.delta,
            adjacency=self.adjacency,
            unit=self.unit,
            rows_per_unit=self.rows_per_unit,
            noise_multiplier=1.0 if self.schedule is None else schedules.parse(self.schedule),
        )
        return plan if self.epsilon is None else plan.calibrate(self.epsilon)

    @property
    def _sampling(self) -> Sampling:
        return self.sampling or PoissonSampling(rate=self.rate or 0)

    def _adaptive_plan(self, chosen: Adaptive) -> AdaptivePlan:
        sampling = self._sampling
        if not isinstance(sampling, PoissonSampling | ShuffleSampling | NoSampling):
            raise InputError(f"recipe: {sampling.kind} sampling has no filter; use poisson, shuffle or none")
        if (self.unit, self.rows_per_unit) != (Unit.EXAMPLE, 1):
            raise InputError("recipe: a run that is chosen on the way protects single rows; use a schedule for users")
        assert self.epsilon is not None
        return AdaptivePlan.make(
            sampling,
            epsilon=self.epsilon,
            delta=self.delta,
            population=self.population,
            clip_norm=self.clip_norm,
            policy=chosen.policy,
            noise_multiplier=chosen.noise_multiplier,
            most_steps=self.steps,
            filter_kind=chosen.filter,
            adjacency=self.adjacency,
            counts=chosen.counts,
            every=chosen.every,
        )

    def load_data(self, path: Path | None) -> Split:
        """The data set, from `path` where it needs one."""
        split = DATASETS[self.data](path)
        if not self.validation or split.test is None:
            return split
        inputs, targets = split.test
        taken = round(self.validation * len(targets))
        if not 0 < taken < len(targets):
            raise InputError(
                f"recipe: validation {self.validation:g} of {len(targets)} public rows leaves a part empty"
            )
        return Split(split.train, (inputs[taken:], targets[taken:]), (inputs[:taken], targets[:taken]), split.units)

    def build_model(self) -> nn.Module:
        """A new model with its public initial weights."""
        model: nn.Module = self.model.build(MODELS)
        return model

    def build_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer over the model's parameters."""
        optimizer: torch.optim.Optimizer = self.optimizer.build(OPTIMIZERS, model.parameters())
        return optimizer


def recipe_names() -> list[str]:
    """The recipes that come with the library."""
    folder = resources.files("discreet.recipes")
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def load_recipe(name: str, settings: Sequence[str] = (), overrides: Mapping[str, object] | None = None) -> Recipe:
    """Read a recipe by name or path; `settings` are `key=value` texts, `overrides` values; both win over the file."""
    if name in recipe_names():
        data = yaml.safe_load(resources.files("discreet.recipes").joinpath(f"{name}.yaml").read_text("utf-8"))
    elif name.endswith((".yaml", ".yml")):
        data = read_yaml(Path(name))
    else:
        raise InputError(f"unknown recipe {name!r}; known: {', '.join(recipe_names())}, or the path of a .yaml file")
    if not isinstance(data, dict):
        raise InputError(f"recipe {name}: must be a mapping of keys to values")
    for setting in settings:
        _set(data, setting)
    data.update(overrides or {})
    return validate(Recipe, data, f"recipe {name}")


def _set(data: dict[str, Any], setting: str) -> None:
    """Apply one `key=value`, with dots for nested keys."""
    key, separator, text = setting.partition("=")
    if not separator or not key:
        raise InputError(f"--set needs key=value, got {setting!r}")
    *outer, last = key.split(".")
    for part in outer:
        data = data.setdefault(part, {})
        if not isinstance(data, dict):
            raise InputError(f"--set {setting}: {part!r} has no keys below it")
    try:
        data[last] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise InputError(f"--set {setting}: the value is not valid YAML; quote it") from None


def _known(name: str, table: Mapping[str, object]) -> str:
    if name not in table:
        raise ValueError(f"unknown name; known: {', '.join(table)}")
    return name
