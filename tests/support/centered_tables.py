"""A table whose numbers are all in the lowest part of their range, so that its features have a center."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from discreet.data.tables import Schema
from discreet.plan.pydantic_base import validate
from discreet.recipes import Recipe
from discreet.recipes.table_recipe import table_recipe

COLUMNS: dict[str, Any] = {f"x{i}": {"type": "number", "low": 0, "high": 100} for i in range(4)}
FACTS: dict[str, Any] = {
    "columns": {**COLUMNS, "kind": {"type": "category", "categories": ["p", "q"]}},
    "target": "y",
    "unit": "row",
    "population": 200,
}
FACTS["columns"]["y"] = {"type": "category", "categories": ["a", "b"]}


def write_centered_tables() -> None:
    """`private.csv` and `public.csv`, 200 and 60 rows, with `schema.yaml`."""
    random = np.random.Generator(np.random.PCG64(5))
    for name, count in (("private.csv", 200), ("public.csv", 60)):
        numbers = random.uniform(0, 8, size=(count, 4)).round(3)
        with Path(name).open("w", newline="") as file:
            rows = [[*row, "pq"[i % 2], "ab"[int(row[0] > 4)]] for i, row in enumerate(numbers.tolist())]
            csv.writer(file).writerows([[*FACTS["columns"]], *rows])
    Path("schema.yaml").write_text(yaml.safe_dump(FACTS))


def train(*more: str, epsilon: float = 3) -> list[str]:
    options = ["--schema", "schema.yaml", "--test", "public.csv", "--epsilon", f"{epsilon:g}", "--out", "out"]
    return ["train", "private.csv", *options, *more]


def schema(**changes: Any) -> Schema:
    return validate(Schema, FACTS | changes, "schema")


def recipe(epsilon: float = 3.0, **changes: Any) -> Recipe:
    return validate(Recipe, table_recipe(schema(), epsilon, None) | changes, "recipe")
