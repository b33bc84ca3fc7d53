"""Named entries of recipes: optimizers and learning-rate schedules, with their arguments as further keys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch
from pydantic import AfterValidator, model_validator
from torch.optim import lr_scheduler

from discreet.core.errors import InputError, first_line
from discreet.core.imports.plug_ins import plug_in
from discreet.methods import AGD, SGLD, DPAdamBC, DPDropout
from discreet.plan.pydantic_base import Frozen

OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "adam_bc": DPAdamBC,
    "dp_dropout": DPDropout,
    "sgld": SGLD,
    "adagrad": torch.optim.Adagrad,
    "agd": AGD,
    "rmsprop": torch.optim.RMSprop,
}
"""Optimizers by their names in recipes. A plug-in adds its own when it is imported."""

SCHEDULERS: dict[str, type[lr_scheduler.LRScheduler]] = {
    "constant": lr_scheduler.ConstantLR,
    "cosine": lr_scheduler.CosineAnnealingLR,
    "cyclic": lr_scheduler.CyclicLR,
    "exponential": lr_scheduler.ExponentialLR,
    "linear": lr_scheduler.LinearLR,
    "multi_step": lr_scheduler.MultiStepLR,
    "one_cycle": lr_scheduler.OneCycleLR,
    "polynomial": lr_scheduler.PolynomialLR,
    "step": lr_scheduler.StepLR,
    "warm_restarts": lr_scheduler.CosineAnnealingWarmRestarts,
}
"""Learning-rate schedules by their names in recipes; their arguments are torch's, in steps."""


class Named(Frozen):
    """An entry of a table by name, with its arguments as further keys."""

    model_config = Frozen.model_config | {"extra": "allow"}
    name: str

    @model_validator(mode="after")
    def _finite(self) -> Named:
        """Refuse arguments that are no numbers, or infinite: they would train, to nothing."""
        for key, value in (self.model_extra or {}).items():
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, float) and not math.isfinite(one):
                    raise ValueError(f"{key} must be finite, got {one}")
        return self

    def build(self, table: Mapping[str, Any], *first: Any) -> Any:
        """Call the entry `name` of `table` with these arguments."""
        for key, value in (self.model_extra or {}).items():
            known = signature(table[self.name]).parameters.get(key)
            number = known is not None and type(known.default) in (int, float)
            if number and isinstance(value, str | bool):
                raise InputError(f"recipe: {self.name} cannot take {key}={value!r:.80}: it must be a number")
        try:
            return table[self.name](*first, **(self.model_extra or {}))
        except (TypeError, ValueError, RuntimeError) as error:
            reason = first_line(error)
            raise InputError(f"recipe: {self.name} cannot take these arguments: {reason}") from None


def one_of(table: Mapping[str, object]) -> AfterValidator:
    """A validator that the table has the name."""

    def check(value: Named) -> Named:
        if value.name not in table and table is OPTIMIZERS:
            plug_in("optimizers")
        known(value.name, table)
        return value

    return AfterValidator(check)


def known(name: str, table: Mapping[str, object]) -> str:
    """`name`; `InputError` if the table does not have it."""
    if name not in table:
        raise ValueError(f"unknown name; known: {', '.join(table)}")
    return name
