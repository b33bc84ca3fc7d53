"""Keywords of version 0.1 that are fields of records now: accepted for one version, with a DeprecationWarning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from warnings import warn

from discreet.core.errors import InputError

_NOW = {
    "run_dir": ("run", "RunOptions", "folder"),
    "resume": ("run", "RunOptions", "resume"),
    "ledger": ("run", "RunOptions", "ledger"),
    "dataset_id": ("run", "RunOptions", "dataset_id"),
    "on_open": ("run", "RunOptions", "on_open"),
    "stream": ("run", "RunOptions", "stream"),
    "public_test": ("public", "PublicData", "test"),
    "public_validation": ("public", "PublicData", "validation"),
    "noise": ("engine", "EngineOptions", "noise"),
    "physical_batch": ("engine", "EngineOptions", "physical_batch"),
}

_OURS = {
    "device": "move the model, model.to({value!r}), and then make the optimizer: the rows go where the model is",
    "batch_size": "the batch is the plan's: Plan.poisson(batch=...)",
    "max_physical_batch_size": "rows go through the model EngineOptions(physical_batch=...) at a time",
    "max_grad_norm": "the clip norm is the plan's: Plan.poisson(clip_norm=...)",
    "noise_multiplier": "the noise is the plan's: Plan.poisson(noise_multiplier=...), or its calibrate(epsilon)",
    "epochs": "they are the plan's: Plan.poisson(epochs=...)",
    "target_epsilon": "the plan meets it: Plan.poisson(...).calibrate(epsilon=...)",
    "target_delta": "it is the plan's: Plan.poisson(delta=...)",
    "loss": "it is the criterion, before the optimizer: Training(plan, model, criterion, optimizer, data)",
    "target": "targets are a part of the data: (inputs, targets)",
}
"""Keywords of other libraries, and what to do here."""


def former_name(of: str, now: str) -> property:
    """A property by its former name, of a class; `now`: its name."""
    owner = of.partition(".")[0]

    def found(one: Any) -> Any:
        warn(f"{of} is {owner}.{now} now", DeprecationWarning, stacklevel=2)
        return getattr(one, now)

    return property(found, doc=f"The former name of `{now}`.")


def with_former(what: str, former: Mapping[str, Any], **records: Any) -> tuple[Any, ...]:
    """`records` in their order, with the fields that were given as keywords of `what` by their former names."""
    for name, value in former.items():
        if what == "Training" and name in _OURS:
            raise InputError(f"{what} takes no {name}; {_OURS[name].format(value=value)}")
        if name not in _NOW or _NOW[name][0] not in records:
            raise TypeError(f"{what}() got an unexpected keyword argument {name!r}")
        record, kind, field = _NOW[name]
        warn(f"{what}({name}=...) is {what}({record}={kind}({field}=...)) now", DeprecationWarning, stacklevel=3)
        records[record] = replace(records[record], **{field: value})
    return tuple(records.values())
