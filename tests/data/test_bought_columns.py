"""Ranges and categories that are bought of a small file: every value is counted, in the form in which it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from discreet.core.events import Gaussian
from discreet.data.tables import Schema, buy_columns, counts_bought, events_bought
from discreet.data.tables.categories import Category
from discreet.data.tables.magnitudes import EIGHTHS, POWERS
from discreet.data.tables.values import Marks, codes
from discreet.queries import Account


def bought(folder: Path, values: list[str], column: dict[str, Any]) -> Any:
    """What a run would buy of a column x with these values."""
    path = folder / "t.csv"
    path.write_text("x,y\n" + "".join(f"{value},{i % 2}\n" for i, value in enumerate(values)))
    columns = {"x": column, "y": {"type": "boolean"}}
    schema = Schema.model_validate({"unit": "row", "population": len(values), "target": "y", "columns": columns})
    account = Account(folder / "ledger.sqlite", 1e-6)
    return buy_columns(path, schema, counts_bought(path, schema), account)["x"]


@pytest.mark.parametrize(("low", "high", "bins"), [(1, 5, 64), (0, 1, 64), (-3, 0.1, 7), (-2, -1, 2)])
def test_values_at_both_ends_of_a_range_are_in_it(low: float, high: float, bins: int, tmp_path: Path) -> None:
    """400 rows at either end, with noise of 2: a bin that is clear of it, but once in 10^1000 runs."""
    column = {"type": "number", "buy": {"between": [low, high], "noise": 2, "bins": bins}}
    assert bought(tmp_path, [str(low), str(high)] * 400, column) == (low, high)


def test_the_largest_magnitude_is_in_the_range_of_all(tmp_path: Path) -> None:
    """All 800 rows have the upper edge of the last bin: the range is its eighth."""
    column = {"type": "number", "buy": {"noise": 2}}
    assert bought(tmp_path, [str(2**64)] * 800, column) == (EIGHTHS[-2], POWERS[-1])


def test_a_closed_bin_costs_what_an_open_one_does() -> None:
    columns = {"x": {"type": "number", "buy": {"between": [1, 5], "noise": 3}}, "y": {"type": "boolean"}}
    ((event,),) = events_bought(Schema.model_validate({"target": "y", "columns": columns}), 1e-6).values()
    assert isinstance(event, Gaussian)
    assert (event.noise_multiplier, event.query) == (3, "histogram")


@pytest.mark.parametrize(
    "column",
    [
        {"categories": ["1", "1.0"]},
        {"categories": ["1", "2"], "same": {"1.0": "2"}},
        {"buy": {"noise": 2}, "same": {"a": "1", "b": "1.0"}},
        {"buy": {"noise": 2}, "same": {"1": "2", "1.0": "3"}},
    ],
)
def test_a_number_that_is_two_categories_is_refused(column: dict[str, Any]) -> None:
    columns = {"x": {"type": "category", **column}, "y": {"type": "boolean"}}
    Schema.model_validate({"target": "y", "columns": columns})
    columns["x"]["numeric"] = True
    with pytest.raises(ValueError, match=r"column 'x': '1' and '1.0' are one number with numeric: true"):
        Schema.model_validate({"target": "y", "columns": columns})


def test_numeric_categories_are_counted_as_they_are_read(tmp_path: Path) -> None:
    """Each spelling alone has 20 rows, of which a threshold of 13 leaves two at most; 60 rows pass."""
    same = {"9": "unknown", "02": "3.0"}
    column = {"type": "category", "buy": {"noise": 2, "most": 4}, "numeric": True, "same": same}
    spellings = ["1", "1.0", "01", "3", "2", "9.0", "unknown"]
    found = bought(tmp_path, spellings * 20, column)
    assert found == ("1", "3.0", "unknown")
    read = codes(pa.array(spellings), Category.model_validate(column).with_categories(found), Marks())
    assert np.array_equal(read, [0, 0, 0, 1, 1, 2, 2])
