"""Queries that give a column of a frame by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.core.errors import InputError
from discreet.queries import Count, Covariance, Histogram, Mean, Quantile, Sum, release

ROWS = np.random.default_rng(1).normal(size=(300, 4))
NAMES = ["age", "dose", "visits", "score"]
BY_NUMBER: list[Any] = [
    Count(1, 0.0),
    Sum(1.0, (2, 0)),
    Mean(2.0, 300, (3,)),
    Histogram((-1, 0, 1), 1),
    Covariance(1.0, (1, 3)),
]
BY_NAME: list[Any] = [
    Count("dose", 0.0),
    Sum(1.0, ("visits", 0)),
    Mean(2.0, 300, ("score",)),
    Histogram((-1, 0, 1), "dose"),
    Covariance(1.0, ("dose", "score")),
]


def frame_of(kind: str) -> Any:
    library = pytest.importorskip(kind)
    return library.DataFrame(ROWS, **({"schema": NAMES} if kind == "polars" else {"columns": NAMES}))


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_columns_of_a_frame_have_names(accounts: Any, kind: str) -> None:
    numbers, names = (
        release(data, [*queries, Quantile(0.5, -3.0, 3.0, 1.0, column)], accounts(), 3.0)
        for data, queries, column in ((ROWS, BY_NUMBER, 1), (frame_of(kind), BY_NAME, "dose"))
    )
    assert names.event == numbers.event
    for one, other in zip(numbers, names, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("query", [*BY_NAME, Quantile(0.5, -3.0, 3.0, 1.0, "dose")])
def test_what_names_a_column_that_is_not_there_costs_nothing(accounts: Any, query: Any) -> None:
    account = accounts()
    frame = frame_of("pandas")
    multipliers = None if isinstance(query, Quantile) else 3.0
    for data, fault in (
        (ROWS, "whose columns have no names"),
        (frame[["age"]], "the data has no column '(dose|visits|score)'; it has age"),
        (frame.rename(columns={"dose": "column_names", "score": "s", "visits": "v"}), "has no column "),
        (frame.set_axis(["x", "dose", "dose", "dose"], axis=1), "has (no|several) columns? "),
    ):
        with pytest.raises(InputError, match=fault):
            release(data, [query], account, multipliers)
    assert list(account.ledger.entries()) == []
