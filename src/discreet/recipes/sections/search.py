"""A search for settings of a recipe: the possible settings, the search's plan, and the recipe of a candidate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from discreet.core.errors import InputError
from discreet.core.yaml_files import parse_yaml
from discreet.data.tables import Schema
from discreet.data.tables.categories import Boolean, Category
from discreet.plan import PartsSearch, Plan, Search
from discreet.plan.pydantic_base import validate
from discreet.plan.tuning.candidates import CLIP_NORM
from discreet.recipes.recipe import Recipe

_FREE = ("optimizer", "scheduler", "model", "averaging")
"""Sections of a recipe that cost nothing to vary: the noise of releases does not depend on them."""

_KNOWN = ", ".join([*(f"{name}.KEY" for name in _FREE), CLIP_NORM])


def parse_grid(options: Sequence[str]) -> dict[str, list[Any]]:
    """`optimizer.lr=0.5,1,2` as a setting with a list of values, each read as YAML."""
    grid: dict[str, list[Any]] = {}
    for option in options:
        name, separator, text = option.partition("=")
        values = parse_yaml(f"[{text}]", f"--grid needs key=value,value,...; {option:.80}") if separator else None
        if not name or not isinstance(values, list) or not values:
            raise InputError(f"--grid needs key=value,value,..., got {option!r}; for example optimizer.lr=0.5,1,2")
        if name in grid:
            raise InputError(f"--grid names {name} twice; give all its values at once")
        _check_name(name)
        grid[name] = values
    if not grid:
        raise InputError("a search needs something to search for; give --grid, for example optimizer.lr=0.5,1,2")
    return grid


def default_score(recipe: Recipe) -> str:
    """The default score of a recipe's trials: a private metric that it buys, or a public one."""
    bought = {metric.name for metric in recipe.bought}
    for name in ("holdout_accuracy", "holdout_loss", "training_accuracy", "training_loss"):
        if name in bought:
            return name
    if recipe.validation:
        return f"validation_{_public_score(recipe.table)}"
    raise InputError(
        "a search needs a score for its trials: hold private rows out (--holdout 10%), or give the share of the public "
        "test rows to look at (--set validation=0.5, of a table with --test)"
    )


def _public_score(table: Schema | None) -> str:
    """The default metric on public rows, by what is predicted."""
    if table is None or (len(table.target) == 1 and isinstance(table.columns[table.target[0]], Category | Boolean)):
        return "accuracy"
    return "loss" if isinstance(table.columns[table.target[0]], Boolean) else "rmse"


def parts_search(grid: Mapping[str, Sequence[Any]], score: str | None) -> PartsSearch:
    """A search over parts of the data; `score` is accuracy, the default, or loss:BOUND."""
    name, separator, text = (score or "accuracy").partition(":")
    if name == "accuracy" and not separator:
        return PartsSearch.make(grid)
    try:
        bound = float(text) if name == "loss" else 0.0
    except ValueError:
        bound = 0.0
    if not 0 < bound < math.inf:
        raise InputError(
            f"candidates on parts of the data are scored by accuracy, or by loss:BOUND, where the loss of a row is "
            f"clipped to the bound (loss:3); got --score {score}"
        )
    return PartsSearch.make(grid, score="loss", bound=bound)


def search_plan(recipe: Recipe, search: Search | PartsSearch) -> Plan:
    """The plan of a search over runs of a recipe. The recipe's epsilon is that of the whole search.

    Where each run has a part of the data, its population is that share of the recipe's population; rate and steps stay.
    """
    if recipe.adaptive is not None:
        raise InputError("a search is over runs whose plan is fixed beforehand; leave out adaptive, or use schedule")
    share = search.share if isinstance(search, PartsSearch) else 1.0

    def one_run(epsilon: float | None) -> Plan:
        changes = {"population": recipe.population * share, "epsilon": epsilon}
        return recipe.model_copy(update=changes).fixed_plan(sizes=epsilon is None)

    return search.over(one_run(None)) if recipe.epsilon is None else search.within(one_run, recipe.epsilon)


def with_settings(recipe: Recipe, settings: Mapping[str, Any]) -> Recipe:
    """The recipe of one candidate. The clip norm is the plan's."""
    data = recipe.model_dump(mode="json")
    for name, value in settings.items():
        if name == CLIP_NORM:
            continue
        outer, _, inner = name.partition(".")
        data[outer] = {**(data[outer] or {}), inner: _listed(value)}
    shown = ", ".join(f"{name}={value}" for name, value in settings.items())
    return validate(Recipe, data, f"recipe with {shown}")


def _check_name(name: str) -> None:
    outer, dot, inner = name.partition(".")
    if name == CLIP_NORM or (outer in _FREE and dot and inner and "." not in inner):
        return
    if outer in Recipe.model_fields:
        raise InputError(
            f"--grid {name}: all runs of a search share one plan and its price, so {outer} must be the same in all; a "
            f"search may vary {_KNOWN}. Set it with --set, or compare searches, each with its own epsilon"
        )
    raise InputError(f"--grid {name}: unknown setting; a search may vary {_KNOWN}")


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value
