"""Rounding to the grid, and adding noise there."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet.mechanism.grid import LARGEST_MULTIPLE, compiled, rounded

GRID = 2.0**-12


def values(kind: type[np.floating]) -> np.ndarray:
    found = np.random.default_rng(3).normal(size=(7, 11)).astype(kind)
    found[0, :4] = [0.5 * GRID, -1.5 * GRID, 2.5 * GRID, 0.0]  # ties go to the even multiple
    return found


def nearest(before: np.ndarray) -> np.ndarray:
    return np.rint(before.astype(np.float64) / GRID) * GRID


def test_every_value_is_the_nearest_multiple() -> None:
    before = values(np.float64)
    found = rounded(before.copy(), GRID)
    assert found.dtype == np.float64
    assert np.array_equal(found, nearest(before))


def test_what_must_not_be_written_to_is_left_alone() -> None:
    before = values(np.float64)
    shown = before[:]
    shown.flags.writeable = False
    found = rounded(shown, GRID)
    assert not np.shares_memory(found, before)
    assert np.array_equal(before, values(np.float64))


def test_one_pass_gives_the_same_bits_as_rounding_and_then_adding_noise() -> None:
    before = values(np.float32).ravel()
    noise = np.random.default_rng(4).integers(-(2**40), 2**40, before.size)
    noise[:2] = [0, 1]
    one, two = noise.copy(), noise.copy()
    assert compiled().round_and_add_noise(before, one, GRID) == 0
    assert compiled().add_noise(nearest(before), two, GRID) == 0
    assert np.array_equal(one, two)
    assert np.array_equal(one.view(np.float64), nearest(before) + noise * GRID)
    assert np.array_equal(before, values(np.float32).ravel())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, LARGEST_MULTIPLE * GRID, -3e38])
def test_a_value_that_does_not_fit_is_counted(value: float) -> None:
    fits = np.nextafter(np.float32(LARGEST_MULTIPLE * GRID), np.float32(0))
    before = np.array([1.0, value, fits, value], np.float32)
    assert compiled().round_and_add_noise(before, np.zeros(4, np.int64), GRID) == 2
