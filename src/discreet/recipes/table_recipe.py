"""The recipe of a table, from declared facts alone: the schema, the population and the budget.

| what          | chosen by                                                                                           |
|---------------|-----------------------------------------------------------------------------------------------------|
| batch, steps  | as `discreet suggest` does                                                                          |
| model         | a hidden layer where population x epsilon is at least 10,000; with less, noise drowns it: linear    |
| learning rate | such that the noise of all steps together moves an output by about 1, and 4 at most                 |
| clip norm     | about the longest gradient that the scale of the features allows: 1, or 2 with a hidden layer. To   |
|               | clip more would learn a bit faster, and make probabilities wrong                                    |
| averaging     | of the second half of the steps                                                                     |

Of images and texts, see `wide`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.data.tables import Encoder, Schema, columns_bought, provisional, what_of
from discreet.data.tables.wide import Image
from discreet.plan import Plan
from discreet.plan.suggest import suggest
from discreet.recipes.wide_recipe import wide_recipe

_SIGNAL = 10_000
_HIDDEN = [64]
_MOMENTUM = 0.9
_FASTEST = 4.0
_DRIFT = 1.0
_MOST_EPOCHS = 50.0


def table_recipe(
    schema: Schema,
    epsilon: float | None,
    delta: float | None,
    *,
    batch: float | None = None,
    steps: int | None = None,
    hidden: Sequence[int] | None = None,
    clip_norm: float | None = None,
) -> dict[str, Any]:
    """A recipe as data, for `Recipe`. `InputError` for what must be declared and is not.

    What is given as `batch`, `steps`, `hidden` or `clip_norm` is taken; the learning rate follows from it.
    """
    _check_declared(schema, epsilon)
    assert schema.population is not None
    assert epsilon is not None
    if schema.wide is not None:
        return wide_recipe(schema, epsilon, delta)
    encoder = Encoder(provisional(schema))
    found = _plan(schema.population, epsilon, delta, batch, steps)
    noise, steps, batch = found.noise[0].multiplier, found.steps, found.expected_batch
    if hidden is None:
        hidden = _HIDDEN if schema.population * epsilon >= _SIGNAL else []
    if clip_norm is None:
        clip_norm = 2.0 if hidden else 1.0
    drift = clip_norm * noise * math.sqrt(steps) / batch / (1 - _MOMENTUM)  # of an output, at learning rate 1
    return {
        "data": "table",
        "table": schema.model_dump(mode="json"),
        "model": {
            "name": "tabular",
            "kinds": list(encoder.kinds),
            "outputs": len(encoder.classes),
            "hidden": list(hidden),
        },
        "optimizer": {"name": "sgd", "lr": float(f"{min(_FASTEST, _DRIFT / drift):.2g}"), "momentum": _MOMENTUM},
        "population": schema.population,
        "rate": batch / schema.population,
        "steps": steps,
        "clip_norm": clip_norm,
        "epsilon": epsilon,
        "delta": found.delta,
        "averaging": {"start": steps // 2},
        "unit": (Unit.USER if schema.unit_column else Unit.EXAMPLE).value,
        "rows_per_unit": schema.rows_per_unit if schema.unit_column else 1,
    }


def _plan(population: float, epsilon: float, delta: float | None, batch: float | None, steps: int | None) -> Plan:
    """What is suggested, or with another batch or length, its noise calibrated anew."""
    if batch is None or steps is None or delta is None:
        suggested = suggest(population, epsilon, delta, most_epochs=_MOST_EPOCHS).plan
        if batch is None and steps is None:
            return suggested
        delta = suggested.delta
        batch = suggested.expected_batch if batch is None else batch
        steps = suggested.steps if steps is None else steps
    plan = Plan.poisson(population=population, batch=batch, steps=steps, clip_norm=1.0, delta=delta)
    return plan.calibrate(epsilon)


def _check_declared(schema: Schema, epsilon: float | None) -> None:
    if epsilon is None:
        raise InputError("say what may be given away about a person: --epsilon, for example --epsilon 3")
    if not schema.target:
        raise InputError("say which column to predict: --target COLUMN, or target in the schema")
    if schema.unit is None:
        raise InputError(
            "say whose the rows are: --unit COLUMN if a person may have several rows, --unit row if every person has "
            "one at most (or unit in the schema)"
        )
    for name, column in columns_bought(schema).items() if schema.unit_column else ():
        raise InputError(
            f"schema: the {what_of(column)} of {name} cannot be bought, because queries protect single rows and a "
            "person may have several here; declare what is publicly known"
        )
    if schema.population is None:
        images = schema.wide is not None and isinstance(schema.wide[1], Image)
        what = "people" if schema.unit_column else "images" if images else "rows"
        raise InputError(
            f"declare how many {what} there are, as the public may know it: --population N (or population in the "
            f"schema); {what} are not counted, because their number is private"
        )
