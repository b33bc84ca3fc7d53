"""Runs that protect people with several rows: what does not fit, and what is looked at before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from people import SHUFFLED, user_plan, user_training
from problems import blobs, tiny_plan

from discreet import Plan
from discreet.core.errors import InputError
from discreet.plan import FixedSizeSampling


def test_an_unknown_unit_and_rows_of_an_example_are_refused() -> None:
    with pytest.raises(InputError, match="unknown unit 'household'; known: example, user"):
        user_plan(unit="household")
    with pytest.raises(InputError, match="goes with unit='user'"):
        tiny_plan(rows_per_unit=2)
    with pytest.raises(InputError, match="rows_per_unit"):
        user_plan(0)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no identifiers": ({"units": None}, "say whose each row is with units="),
    "identifiers for examples": ({"plan": tiny_plan()}, "make the plan with unit='user'"),
    "too few identifiers": ({"units": SHUFFLED[:-1]}, "fewer identifiers than the data has rows"),
    "more users than declared": ({"units": np.arange(24)}, "more different identifiers than the 5"),
    "another public number of users": (
        {
            "plan": Plan.make(
                FixedSizeSampling(batch=2),
                population=5,
                steps=2,
                clip_norm=1.0,
                delta=1e-5,
                adjacency="replace_one",
                unit="user",
            )
        },
        "4 different identifiers, but the plan declares a population of exactly 5",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_before_anything_is_charged(tmp_path: Path, case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(InputError, match=message):
        user_training(tmp_path, **changes)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("row", [0, 11, 23])
def test_every_row_of_every_user_is_looked_at_before_a_run(tmp_path: Path, row: int) -> None:
    inputs, targets = blobs()
    inputs[row, 0] = float("nan")
    with pytest.raises(InputError, match=f"row {row} of the data, counted from 0, is NaN"):
        user_training(tmp_path, 1, data=(inputs, targets))


def test_more_rows_than_the_population_are_no_matter(tmp_path: Path) -> None:
    training = user_training(tmp_path)
    assert len(training.data) == 4
    assert training.data.rows == 24
