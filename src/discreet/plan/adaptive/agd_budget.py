"""A plan for AGD from a budget, which it splits between gradients and choices."""

from __future__ import annotations

import math
from typing import Any

from discreet.accounting.account import parse
from discreet.accounting.adaptive.filters import ZcdpFilter
from discreet.core import checks
from discreet.core.adjacency import Adjacency, Norm, Query, sensitivity_ratio
from discreet.core.errors import InputError
from discreet.core.events import Gaussian
from discreet.plan.adaptive.adaptive_plan import AdaptivePlan
from discreet.plan.adaptive.line_search import LineSearch
from discreet.plan.adaptive.run_filter import for_budget
from discreet.sampling import NoSampling


def agd_plan(
    *,
    population: float,
    epsilon: float,
    delta: float,
    bound: float,
    clip_norm: float | None = None,
    splits: int = 60,
    choices: float = 0.5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    search: dict[str, Any] | None = None,
    **rest: Any,
) -> AdaptivePlan:
    """A plan for AGD (Lee and Kifer 2018) within (epsilon, delta).

    `bound` is where losses are clipped, `clip_norm` where gradients are. At first the budget is split into `splits`
    equal steps of rho / splits each; the share `choices` of it pays for the choice, the rest for the gradient. Each
    choice of "do not move" raises the price of later gradients, so most runs have fewer steps. A gradient that is
    repeated at the same point pays only for the precision that it adds. `search`: further fields of `LineSearch`;
    `rest`: further ones of `AdaptivePlan`.
    """
    near = parse(Adjacency, "adjacency", adjacency)
    splits, choices = checks.count("splits", splits), checks.open_unit("choices", choices)
    budget = for_budget(ZcdpFilter.kind, Gaussian(1.0), checks.positive("epsilon", epsilon), delta, near)
    assert isinstance(budget, ZcdpFilter)
    step = budget.rho / splits * (1 - 2.0**-40)  # so that rounding the price up leaves room for all splits
    ratios = (sensitivity_ratio(Query.CLIPPED_SUM, near), sensitivity_ratio(Query.LOSS, near, Norm.L1))
    policy = {"bound": bound, "epsilon": math.sqrt(8 * choices * step) / ratios[1], **(search or {})}
    if not {"kind", "noise_multiplier"}.isdisjoint(policy):
        raise InputError("search holds fields of LineSearch only")
    made = LineSearch(**policy)
    cheapest = choices * step + (1 - choices) * step * min(1.0, made.growth)
    return AdaptivePlan.make(
        NoSampling(),
        population=population,
        epsilon=epsilon,
        delta=delta,
        clip_norm=clip_norm,
        adjacency=near,
        policy=made,
        noise_multiplier=ratios[0] / math.sqrt(2 * (1 - choices) * step),
        most_steps=2 * math.ceil(budget.rho / cheapest),
        **rest,
    )
