"""Rounding to the grid."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.mechanism.grid import rounded

GRID = 2.0**-12


def values(kind: type[np.floating]) -> np.ndarray:
    found = np.random.default_rng(3).normal(size=(7, 11)).astype(kind)
    found[0, :4] = [0.5 * GRID, -1.5 * GRID, 2.5 * GRID, 0.0]  # ties go to the even multiple
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_every_value_is_the_nearest_multiple(kind: type[np.floating]) -> None:
    before = values(kind)
    found = rounded(before.copy(), GRID)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.rint(before.astype(np.float64) / GRID) * GRID)


def test_what_must_not_be_written_to_is_left_alone() -> None:
    before = values(np.float64)
    shown = before[:]
    shown.flags.writeable = False
    found = rounded(shown, GRID)
    assert not np.shares_memory(found, before)
    assert np.array_equal(before, values(np.float64))
