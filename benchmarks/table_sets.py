"""Ten tables as files, for table_quality.py: what `discreet train` would be given, and the same numbers for its rivals.

Those of scikit-learn come with it, the others are in the folder of data sets ($DISCREET_DATA), two are made up. Ranges
are declared: least and largest value, rounded outwards to one digit of their distance, as documentation of such columns
would say them; every contestant is told the same.
"""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from sklearn import datasets

DATA = Path(os.environ.get("DISCREET_DATA", "data"))
TARGET = "target"


@dataclass(frozen=True)
class Table:
    """`columns`: a schema's; `rows`: lists of values as they stand in a file; `split`: rows of the training part, or
    None for four fifths at random."""

    columns: dict[str, dict[str, Any]]
    rows: list[list[Any]]
    split: int | None = None

    @property
    def regression(self) -> bool:
        return bool(self.columns[TARGET]["type"] == "number")

    def parts(self, seed: int) -> tuple[list[list[Any]], list[list[Any]]]:
        """Rows to train on, and to test on."""
        if self.split is not None:
            return self.rows[: self.split], self.rows[self.split :]
        order = np.random.default_rng(seed).permutation(len(self.rows))
        cut = len(order) * 4 // 5
        return [self.rows[i] for i in order[:cut]], [self.rows[i] for i in order[cut:]]

    def write(self, folder: Path, seed: int) -> None:
        """train.csv, test.csv and schema.yaml. Declared is the number of rows to two digits."""
        train, test = self.parts(seed)
        for name, rows in (("train", train), ("test", test)):
            with (folder / f"{name}.csv").open("w", newline="") as file:
                csv.writer(file).writerows([list(self.columns), *rows])
        declared = float(f"{len(train):.2g}")
        facts = {"unit": "row", "population": declared, "target": TARGET, "columns": self.columns}
        facts["missing"] = ["", "?"]
        (folder / "schema.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))


def outwards(values: np.ndarray) -> dict[str, Any]:
    """A number of a schema, with a rounded range."""
    low, high = float(np.min(values)), float(np.max(values))
    step = 10.0 ** math.floor(math.log10(high - low)) if high > low else 1.0
    return {"type": "number", "low": math.floor(low / step) * step, "high": math.ceil(high / step) * step or step}


def _of_arrays(inputs: np.ndarray, target: np.ndarray, classes: int | None) -> Table:
    columns = {f"x{i}": outwards(inputs[:, i]) for i in range(inputs.shape[1])}
    columns[TARGET] = (
        outwards(target) if classes is None else {"type": "category", "categories": list(map(str, range(classes)))}
    )
    answers = target.tolist() if classes is None else target.astype(int).tolist()
    return Table(columns, [[*row, answer] for row, answer in zip(inputs.tolist(), answers, strict=True)])


def _sklearn(load: Callable[..., Any], classes: int | None, **options: Any) -> Callable[[], Table]:
    def made() -> Table:
        inputs, target = load(return_X_y=True, **options)
        return _of_arrays(inputs, target, classes)

    return made


def _adult() -> Table:
    schema = yaml.safe_load((Path(__file__).parents[1] / "docs" / "tables" / "adult.yaml").read_text())
    (target,) = [schema["target"]] if isinstance(schema["target"], str) else schema["target"]
    names = list(schema["columns"])
    kept = [name for name in names if schema["columns"][name]["type"] != "ignore" and name != target]
    rows: list[list[Any]] = []
    counts = []
    for file in ("adult.data", "adult.test"):
        lines = [line.strip().rstrip(".").split(", ") for line in (DATA / "adult" / file).read_text().splitlines()]
        found = [dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names)]
        rows += [[*(row[name] for name in kept), row[target]] for row in found]
        counts.append(len(found))
    columns = {name: schema["columns"][name] for name in kept}
    columns[TARGET] = {"type": "category", "categories": ["<=50K", ">50K"]}
    return Table(columns, rows, counts[0])


def _a9a() -> Table:
    rows: list[list[Any]] = []
    counts = []
    for file in ("a9a", "a9a.t"):
        lines = (DATA / "adult" / file).read_text().splitlines()
        for line in lines:
            answer, *places = line.split()
            row: list[Any] = [0] * 123 + ["high" if float(answer) > 0 else "low"]
            for place in places:
                row[int(place.split(":")[0]) - 1] = 1
            rows.append(row)
        counts.append(len(lines))
    columns: dict[str, dict[str, Any]] = {f"b{i}": {"type": "boolean"} for i in range(123)}
    return Table(columns | {TARGET: {"type": "category", "categories": ["low", "high"]}}, rows, counts[0])


def _cancer() -> Table:
    lines = [line.split(",") for line in (DATA / "cancer" / "breast-cancer-wisconsin.data").read_text().split()]
    columns: dict[str, dict[str, Any]] = {f"x{i}": {"type": "number", "low": 1, "high": 10} for i in range(9)}
    return Table(columns | {TARGET: {"type": "category", "categories": ["2", "4"]}}, [line[1:] for line in lines])


def _movielens() -> Table:
    with gzip.open(DATA / "movielens" / "ml-100k_u.data.gz", "rt") as file:
        rows = [[f"u{user}", f"i{item}", int(rating)] for user, item, rating, _ in (line.split() for line in file)]
    columns = {
        "user": {"type": "category", "categories": [f"u{i}" for i in range(1, 944)]},
        "item": {"type": "category", "categories": [f"i{i}" for i in range(1, 1683)]},
        TARGET: {"type": "number", "low": 1, "high": 5},
    }
    return Table(columns, rows)


def _imbalanced() -> Table:
    """5,000 rows, one in eight of the second class."""
    inputs, target = datasets.make_classification(
        5000, 15, n_informative=6, n_redundant=3, weights=[0.875], flip_y=0.02, class_sep=0.9, random_state=11
    )
    return _of_arrays(inputs, target, 2)


def _outliers() -> Table:
    """2,500 rows, a bent dependence, and one target in forty that is far off."""
    random = np.random.default_rng(12)
    inputs = random.normal(size=(2500, 10))
    target = inputs @ random.normal(size=10) + 2 * np.abs(inputs[:, 0]) + random.normal(size=2500)
    target += (random.random(2500) < 0.025) * random.normal(0, 15, 2500)
    return _of_arrays(inputs, target, None)


TABLES: dict[str, Callable[[], Table]] = {
    "breast cancer": _sklearn(datasets.load_breast_cancer, 2),
    "wine": _sklearn(datasets.load_wine, 3),
    "diabetes": _sklearn(datasets.load_diabetes, None, scaled=False),
    "digits": _sklearn(datasets.load_digits, 10),
    "Adult": _adult,
    "Cancer original": _cancer,
    "a9a": _a9a,
    "MovieLens": _movielens,
    "imbalanced": _imbalanced,
    "outliers": _outliers,
}
