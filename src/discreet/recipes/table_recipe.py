"""The recipe of a table, from declared facts alone: the schema, the population and the budget.

| what          | chosen by                                                                                          |
|---------------|----------------------------------------------------------------------------------------------------|
| model         | a hidden layer where population x epsilon is at least 1,000 a column, and 5,000; a column counts   |
|               | once for every 20 categories. With less, noise drowns it: linear. Rows of features have norm 1     |
|               | (`UnitColumns`)                                                                                    |
| batch, steps  | as `discreet suggest` does; of a linear model for at most 20,000 people all rows, 100 steps        |
| clip norm     | part of the longest gradient, which keeps more of the signal than of the noise: 0.4, or 1 with a   |
|               | hidden layer; there 0.25 of a number, as most errors are smaller than its range. Of k numbers, that |
|               | divided by the root of k: the loss is the mean over them                                           |
| learning rate | such that the noise of all steps together moves an output by about 2, or 1 with a hidden layer; of |
|               | a number that is predicted by 0.4 or 0.3, as its range is -1 to 1. At most 4, and 1.5              |
| averaging     | of the second half of the steps                                                                    |
| center        | where all rows are in each step: the mean of their features, bought first (`center_within`)        |

Of images and texts, see `wide`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from discreet.core.checks import check_delta
from discreet.core.errors import InputError
from discreet.data.tables import Encoder, Schema, columns_bought, provisional, refuse_bought
from discreet.data.tables.categories import Category
from discreet.data.tables.wide import Image
from discreet.plan import NoSampling, Plan
from discreet.plan.suggest import suggest
from discreet.recipes.models.tabular import UnitColumns
from discreet.recipes.sections.center import after_center, center_within
from discreet.recipes.wide_recipe import MOST_EPOCHS, of_plan, of_schema, wide_recipe

_SIGNAL, _SIGNAL_OF_COLUMN = 5_000, 1_000
"""The least population x epsilon for a hidden layer, in all and for each column."""

_CATEGORIES = 20
_HIDDEN = [64]
_PIECES = 12
_CLIP_NORMS = {(False, False): 0.4, (False, True): 1.0, (True, False): 0.4, (True, True): 0.25}
_DRIFTS = {(False, False): 2.0, (False, True): 1.0, (True, False): 0.4, (True, True): 0.3}
"""By (whether a number is predicted, whether there is a hidden layer)."""

_FASTEST = {False: 4.0, True: 1.5}
_WHOLE, _WHOLE_STEPS = 20_000, 100
"""The most people for which a linear model sees all rows in every step, and its number of steps."""


def table_recipe(
    schema: Schema,
    epsilon: float | None,
    delta: float | None,
    *,
    batch: float | None = None,
    steps: int | None = None,
    hidden: Sequence[int] | None = None,
    clip_norm: float | None = None,
    queries: bool = True,
) -> dict[str, Any]:
    """A recipe as data, for `Recipe`. `InputError` if a required declaration is missing.

    `batch`, `steps`, `hidden` and `clip_norm` replace the defaults; the learning rate follows from them. `queries`:
    whether the run can answer a query before its first step.
    """
    _check_declared(schema, epsilon)
    assert schema.population is not None
    assert epsilon is not None
    check_delta(schema.population, delta)
    if schema.wide is not None:
        return wide_recipe(schema, epsilon, delta, queries=queries)
    encoder = Encoder(provisional(schema))
    signal = schema.population * epsilon
    if hidden is None:
        columns = sum(max(1.0, kind / _CATEGORIES) for kind in encoder.kinds)
        hidden = _HIDDEN if signal >= max(_SIGNAL, _SIGNAL_OF_COLUMN * columns) else []
    kind = encoder.task == "regression", bool(hidden)
    if clip_norm is None:
        outputs = len(schema.target) if encoder.task == "regression" else 1
        clip_norm = _CLIP_NORMS[kind] / math.sqrt(outputs)  # the gradient of a mean over outputs is shorter
    found = _plan(schema.population, epsilon, delta, batch, steps, linear=not hidden)
    model = {"name": "tabular", "kinds": list(encoder.kinds), "outputs": len(encoder.classes), "hidden": list(hidden)}
    model |= {"pieces": _PIECES if hidden else 0, "unit_rows": True, "binary": list(encoder.binary)}
    center = _center(found, epsilon, schema, encoder) if queries else None
    found = after_center(found, center, epsilon)
    chosen = of_plan(found, clip_norm, _DRIFTS[kind], _FASTEST[kind[0]])
    return of_schema(schema, epsilon) | chosen | {"model": model, "clip_norm": clip_norm, "center": center}


def _plan(
    population: float, epsilon: float, delta: float | None, batch: float | None, steps: int | None, *, linear: bool
) -> Plan:
    """The suggested plan; with another batch or length, its noise is calibrated anew. With few rows, all are in each
    step."""
    suggested = suggest(population, epsilon, delta, most_epochs=MOST_EPOCHS, poisson=True).plan
    delta = suggested.delta
    if batch is None and linear and population <= _WHOLE:
        steps = _WHOLE_STEPS if steps is None else steps
        plan = Plan.make(NoSampling(), population=population, steps=steps, clip_norm=1.0, delta=delta)
        return plan.calibrate(epsilon)
    if batch is None and steps is None:
        return suggested
    batch = suggested.expected_batch if batch is None else batch
    steps = suggested.steps if steps is None else steps
    plan = Plan.poisson(population=population, batch=batch, steps=steps, clip_norm=1.0, delta=delta)
    return plan.calibrate(epsilon)


def _center(plan: Plan, epsilon: float, schema: Schema, encoder: Encoder) -> dict[str, float] | None:
    """The section of a center; None for runs that cannot buy one, or that need none."""
    everyone = plan.sampling.kind == "none" and schema.unit_column is None and not columns_bought(schema)
    if not everyone or max(encoder.kinds) > UnitColumns.most_inputs:
        return None
    width = sum(max(2, kind) for kind in encoder.kinds)  # a number: its place, and whether it is missing
    return center_within(epsilon, plan.delta, plan.population, width)


def _check_declared(schema: Schema, epsilon: float | None) -> None:
    if epsilon is None:
        raise InputError("say what may be given away about a person: --epsilon, for example --epsilon 3")
    if not schema.target:
        raise InputError("say which column to predict: --target COLUMN, or target in a schema")
    for name in schema.target:
        column = schema.columns[name]
        if isinstance(column, Category) and len(column.categories) == 1:
            raise InputError(
                f"the target {name!r} has one class, {column.categories[0]!r:.80}; declare all that there "
                "may be, two at least"
            )
    if schema.unit is None:
        raise InputError(
            "say whose the rows are: --unit COLUMN if a person may have several rows, --unit row if every person has "
            "one at most (or unit in a schema)"
        )
    if schema.unit_column:
        refuse_bought(
            schema, "cannot be bought, because queries protect single rows and a person may have several here"
        )
    if schema.population is None:
        images = schema.wide is not None and isinstance(schema.wide[1], Image)
        what = "people" if schema.unit_column else "images" if images else "rows"
        raise InputError(
            f"declare how many {what} there are, as the public may know it: --population N (or population in a "
            f"schema); {what} are not counted, because their number is private"
        )
