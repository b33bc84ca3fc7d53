"""Whether a plan can be carried out, which must be known beforehand: finding out in a step would depend on the data."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.core.events import Event
from discreet.data import PrivateData, group
from discreet.mechanism import GRID_BITS, LARGEST_MULTIPLE, noise_multiplier
from discreet.plan import AdaptivePlan, Plan
from discreet.training.counts import check_countable


def check_plan(plan: Plan | AdaptivePlan, model: nn.Module, data: PrivateData, validated: bool) -> None:
    """Refuse a plan that this model or data cannot carry out; `validated`: there is public validation data."""
    if isinstance(plan, Plan):
        for release in plan.releases():
            check_grid(release, plan.largest_batch)
        return
    if plan.policy.metric == "accuracy" and not validated:
        raise InputError("the policy looks at the accuracy on public data; give public_validation")
    if plan.counts is not None:
        check_countable(model, data)


def check_grid(release: Event, units: int) -> None:
    """Refuse a release of sums over up to `units` units that might not fit their grid, whatever the sensitivity."""
    if units * 2.0 ** (GRID_BITS + 1) / noise_multiplier(release) >= LARGEST_MULTIPLE:
        raise InputError(
            f"batches of up to {units} units are too large for so little noise; raise the noise multiplier or "
            "take smaller batches"
        )


def grouped(data: PrivateData, units: object, plan: Plan | AdaptivePlan) -> PrivateData:
    """The data with the units that the plan protects."""
    if plan.unit is Unit.EXAMPLE and units is not None:
        raise InputError("units was given, but the plan protects single rows; make the plan with unit='user'")
    if plan.unit is Unit.USER and units is None:
        raise InputError("the plan protects users; say whose each row is with units=..., one identifier for each row")
    return data if units is None else replace(data, groups=group(units, data.rows))
