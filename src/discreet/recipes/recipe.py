"""`Recipe`: everything `discreet train` needs, validated field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import torch
import yaml
from pydantic import Field, field_validator, model_validator
from torch import nn

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.data import DATASETS, Split
from discreet.plan import Plan, PoissonSampling, Sampling
from discreet.plan.plan import Delta, Positive
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


class Recipe(Frozen):
    """A training run in one file.

    `population`, `rate` (of Poisson sampling) or `sampling` (any other kind), `steps`, `clip_norm`, `adjacency`
    describe the plan; its noise is calibrated to (`epsilon`, `delta`). Under add/remove none of them is read off the
    data.
    """

    data: str
    model: Named
    optimizer: Named
    population: Positive
    rate: Rate | None = None
    sampling: Sampling | None = None
    steps: Count
    clip_norm: Positive
    epsilon: Positive
    delta: Delta
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    engine: str = "auto"
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
        return self

    def plan(self) -> Plan:
        """The plan, its noise calibrated to the budget."""
        return Plan.make(
            self.sampling or PoissonSampling(rate=self.rate or 0),
            population=self.population,
            steps=self.steps,
            clip_norm=self.clip_norm,
            delta=self.delta,
            adjacency=self.adjacency,
        ).calibrate(self.epsilon)

    def load_data(self, path: Path | None) -> Split:
        """The data set, from `path` where it needs one."""
        return DATASETS[self.data](path)

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
