"""The section of a center: `center: {noise: 20}`, the mean of the features of all rows, bought before the first
step."""

from __future__ import annotations

import math
from collections.abc import Sequence

from discreet.core.adjacency import Query
from discreet.core.events import Gaussian
from discreet.data.tables import Schema, columns_bought
from discreet.plan import NoSampling, Plan
from discreet.plan.pydantic_base import Frozen
from discreet.plan.sampling import Positive
from discreet.recipes.named import Named
from discreet.recipes.sections.components import RecipeComponents

_MODELS = ("linear", "tabular")

_SHARE = 0.2
"""The mu of a center over that of the whole budget, in Gaussian differential privacy."""

_MOST_NUMBERS = 2e7
"""The most features of all rows together, which are in memory at once."""


class RecipeCenter(Frozen):
    """The noise multiplier of the sum of features, of which each row has norm 1. The model sees features less their
    mean."""

    noise: Positive

    @property
    def event(self) -> Gaussian:
        """The event of the query that the run answers first."""
        return Gaussian(self.noise, Query.CLIPPED_SUM)

    def check(self, table: Schema | None, model: str) -> None:
        """`ValueError` for a recipe that has no such features before its first query."""
        if model not in _MODELS:
            raise ValueError(f"center goes with the models {' and '.join(_MODELS)}; leave it out")
        if table is not None and columns_bought(table):
            raise ValueError("center needs all ranges and categories declared, and some are bought; leave it out")


def check_first(bought: Sequence[RecipeComponents | RecipeCenter], table: Schema | None, model: Named) -> None:
    """`ValueError` for what a run cannot buy before its first step: of components and a center it buys one. A model
    does not say itself whether it has a center."""
    for first in bought:
        first.check(table, model.name)
    if len(bought) > 1:
        raise ValueError("give components or a center, not both: a run buys one of them")
    if "centered" in model.model_dump():
        raise ValueError("center says whether a model is centered; leave out model.centered")


def center_within(epsilon: float, delta: float, population: float, width: int) -> dict[str, float] | None:
    """The section of a center of features of this `width`, with 4 % of a budget in squared Gaussian differential
    privacy; None where noise would be longer than any center, or features of all rows would not be in memory.

    Plans that spend the budget in steps of Gaussian noise then need about 2 % more of it.
    """
    one = Plan.make(NoSampling(), population=population, steps=1, clip_norm=1.0, delta=delta).calibrate(epsilon)
    noise = one.noise[0].multiplier / _SHARE
    if noise * math.sqrt(width) > population or population * width > _MOST_NUMBERS:
        return None
    return {"noise": float(f"{noise:.3g}")}


def after_center(plan: Plan, center: dict[str, float] | None, epsilon: float) -> Plan:
    """The plan with the query of a center, if there is one, and the noise that is needed then."""
    if center is None:
        return plan
    return plan.model_copy(update={"before": (RecipeCenter.model_validate(center).event,)}).calibrate(epsilon)
