"""Reads recipes, by name or from files, with settings from the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.core.yaml_files import COUNTS, parse_yaml, read_yaml
from discreet.plan.pydantic_base import validate
from discreet.recipes.recipe import Recipe
from discreet.recipes.shipped import recipe_names


def load_recipe(name: str, settings: Sequence[str] = (), overrides: Mapping[str, object] | None = None) -> Recipe:
    """Read a recipe by name or path; `settings` are `key=value` texts, `overrides` values; both win over the file."""
    if name in recipe_names():
        data = parse_yaml(resources.files("discreet.recipes").joinpath(f"{name}.yaml").read_text("utf-8"), name)
    elif name.endswith((".yaml", ".yml")):
        data = read_yaml(Path(name))
    else:
        raise InputError(f"unknown recipe {name!r}; known: {', '.join(recipe_names())}, or the path of a .yaml file")
    if not isinstance(data, dict):
        raise InputError(f"recipe {name}: must be a mapping of keys to values")
    if "columns" in data and "data" not in data:
        raise InputError(f"{name} is the schema of a table and no recipe; name the table, with --schema {name}")
    return recipe_of(data, f"recipe {name}", settings, overrides)


_ELSEWHERE = {
    **dict.fromkeys(["lr", "learning_rate"], "optimizer.lr"),
    **{name: f"optimizer.{name}" for name in ("momentum", "weight_decay", "betas")},
    **dict.fromkeys(["batch", "batch_size"], "rate, the batch over the population"),
    **dict.fromkeys(["epoch", "epochs"], "steps, epochs over rate"),
    **dict.fromkeys(["noise_multiplier", "sigma"], "epsilon, which finds it, or schedule"),
    "max_grad_norm": "clip_norm",
}
"""What a setting is called where people come from, and here."""

_HOW_DRAWN = {"rate", "sampling", "batches"}
_NAMED = ("data", "model")
"""Sections for which a name alone will do."""


def recipe_of(
    data: dict[str, Any], where: str, settings: Sequence[str] = (), overrides: Mapping[str, object] | None = None
) -> Recipe:
    """The recipe in `data`, with settings and overrides as in `load_recipe`; errors name `where`.

    A setting of how batches are drawn replaces any other such setting in `data`.
    """
    given = {setting.partition("=")[0].partition(".")[0] for setting in settings} & _HOW_DRAWN
    for name in _HOW_DRAWN - given if given else ():
        data.pop(name, None)
    for setting in settings:
        _set(data, setting)
    data.update(overrides or {})
    return validate(Recipe, data, where)


def _set(data: dict[str, Any], setting: str) -> None:
    """Apply one `key=value`, with dots for nested keys."""
    key, separator, text = setting.partition("=")
    if not separator or not key:
        raise InputError(f"--set needs key=value, got {setting!r}")
    *outer, last = key.split(".")
    if (section := key.split(".")[0]) not in Recipe.model_fields:
        known = ", ".join(Recipe.model_fields)
        raise InputError(f"--set {setting:.80}: unknown key {section!r}{_meant(section)}; known: {known}")
    for part in outer:
        if part in _NAMED and isinstance(data.get(part), str):
            data[part] = {"name": data[part]}
        data = data.setdefault(part, {})
        if not isinstance(data, dict):
            raise InputError(f"--set {setting}: {part!r} has no keys below it")
    if last in COUNTS and (said := checks.two_ways(text)):
        raise InputError(f"--set {last}: {said}")
    data[last] = parse_yaml(text, f"--set {setting:.80}: the value")


def _meant(key: str) -> str:
    """A hint at the key that was meant by an unknown one; "" if none is like it."""
    if key in _ELSEWHERE:
        return f" (it is {_ELSEWHERE[key]} here)"
    near = get_close_matches(key, Recipe.model_fields, 1)
    return f" (perhaps {near[0]})" if near else ""


def settings_of(recipe: Recipe) -> list[str]:
    """Everything that a setting can change, as key=value, in the order of the recipe; without the schema of a table."""
    return list(_settings(recipe.model_dump(mode="json", exclude={"table"})))


def _settings(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _settings(inner, f"{key}.{name}" if key else name)
    else:
        text = yaml.safe_dump(value, default_flow_style=True, width=10**6)
        yield f"{key}={text.removesuffix('...' + chr(10)).strip()}"
