"""Sums and noise over a chain of steps, beside matrices written out, and what one unit can move."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from discreet.core.errors import PrivacyViolation
from discreet.core.events import CyclicPoisson, Gaussian
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.mechanism import Chain

GRID = 2.0**-30
COEFFICIENTS = (64, 40, 33)
EVENT = CyclicPoisson(3, 0.5, Gaussian(1.0))
whole = st.lists(st.integers(1, 64), min_size=1, max_size=6).map(lambda found: tuple(sorted(found, reverse=True)))


def matrix(coefficients: tuple[int, ...], steps: int) -> np.ndarray:
    """C written out: lower triangular, with these bands."""
    column = np.zeros(steps)
    column[: min(steps, len(coefficients))] = coefficients[:steps]
    return toeplitz(column, np.zeros(steps))


def total(values: np.ndarray, sensitivity: float = 1.0, grid: float = GRID) -> ClippedSum:
    return ClippedSum({"w": values}, sensitivity, grid)


def on_grid(rows: int, columns: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**40), 2**40, (rows, columns)) * GRID


def chained(chain: Chain, sums: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """What is released, what follows from it, and by how much the noise of the latter is larger."""
    released, means, growths = [], [], []
    for place, (one, z) in enumerate(zip(sums, noise, strict=True)):
        noisy = chain.mixed(total(one)).tensors["w"] + z
        released.append(noisy)
        release = chain.unmixed(Release({"w": noisy}, EVENT, Receipt("run", 0, place, EVENT)))
        means.append(release.tensors["w"])
        growths.append(chain.growth)
    return np.array(released), np.array(means), growths


@given(coefficients=whole, steps=st.integers(1, 12), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_is_released_is_the_matrix_times_the_sums(coefficients: tuple[int, ...], steps: int, seed: int) -> None:
    """Exactly: all products and sums are of whole numbers of the grid."""
    sums, chain = on_grid(steps, 5, seed), Chain(coefficients if len(coefficients) > 1 else (1,))
    released, _, _ = chained(chain, sums, np.zeros((steps, 5)))
    wanted = matrix(coefficients if len(coefficients) > 1 else (1,), steps).astype(object) @ (sums / GRID).astype(
        object
    )
    assert [[int(one) for one in row] for row in released / GRID] == [[int(one) for one in row] for row in wanted]


@given(coefficients=whole.filter(lambda found: len(found) > 1), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_what_follows_is_the_sum_and_correlated_noise(coefficients: tuple[int, ...], seed: int) -> None:
    """G = S + C^-1 z, whose deviation in step t is the length of row t of C^-1."""
    steps, sums = 10, on_grid(10, 5, seed)
    noise = np.random.default_rng(seed).normal(0, 1000, (steps, 5))
    inverse = np.linalg.inv(matrix(coefficients, steps))
    _, means, growths = chained(Chain(coefficients), sums, noise)
    room = 1e-9 * np.linalg.cond(matrix(coefficients, steps))
    np.testing.assert_allclose(means, sums + inverse @ noise, rtol=1e-9, atol=room)
    np.testing.assert_allclose(growths, np.linalg.norm(inverse, axis=1), rtol=1e-9)


@given(coefficients=whole, turn=st.integers(0, 5), seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_turn_moves_all_releases_together_by_the_sensitivity(
    coefficients: tuple[int, ...], turn: int, seed: int
) -> None:
    """One unit, in one sum, by a vector of length 1: the releases move by |m| together, and none after b of them."""
    steps, bands = 12, len(coefficients)
    moved = np.zeros(5)
    moved[seed % 5] = 1.0
    without = on_grid(steps, 5, seed)
    having = without.copy()
    having[turn] += moved
    chain, other = Chain(coefficients), Chain(coefficients)
    noise = np.zeros((steps, 5))
    apart = chained(chain, having, noise)[0] - chained(other, without, noise)[0]
    stated = Chain(coefficients).mixed(total(without[0])).sensitivity
    length = float(np.linalg.norm(apart))
    assert length <= stated
    if bands > 1:
        assert stated <= length * (1 + 2.0**-45)
    assert not apart[:turn].any()
    assert not apart[turn + bands :].any()


def test_turns_a_round_apart_share_no_release() -> None:
    """Were a unit's turns closer, one release would hold two of its contributions: the theorem needs b steps."""
    bands = len(COEFFICIENTS)

    def moved(turns: tuple[int, ...]) -> np.ndarray:
        sums = np.zeros((9, 1))
        sums[list(turns)] = 1.0
        return chained(Chain(COEFFICIENTS), sums, np.zeros((9, 1)))[0][:, 0]

    apart, one = moved((1, 1 + bands)), float(np.linalg.norm(moved((1,))))
    assert np.linalg.norm(apart[1 : 1 + bands]) == np.linalg.norm(apart[1 + bands : 1 + 2 * bands]) == one
    assert np.linalg.norm(moved((1, bands))[1 : 1 + bands]) > one


def test_sums_in_single_precision_are_rounded_to_the_grid_first() -> None:
    values = np.random.default_rng(1).normal(0, 1, 50).astype(np.float32)
    found = Chain(COEFFICIENTS).mixed(total(values)).tensors["w"]
    np.testing.assert_array_equal(found, 64 * np.rint(values.astype(np.float64) / GRID) * GRID)


def test_kept_sums_are_neither_copied_nor_written() -> None:
    chain = Chain(COEFFICIENTS)
    chain.mixed(total(np.ones(3)))
    for leak in (pickle.dumps, copy.deepcopy):
        with pytest.raises(PrivacyViolation, match="private"):
            leak(chain)


def test_one_coefficient_passes_everything_as_it_is() -> None:
    given_sum, chain = total(np.ones(3, np.float32)), Chain()
    assert chain.mixed(given_sum) is given_sum
    assert chain.bound(3, 1.5, GRID) == (3, 1.5, GRID)
    assert chain.growth == 1.0


def test_the_bound_that_is_known_beforehand_is_that_of_the_sum() -> None:
    chain = Chain(COEFFICIENTS)
    assert chain.bound(3, 1.7, GRID) == (3, chain.mixed(total(np.zeros(3), 1.7)).sensitivity, GRID)
    assert chain.norm >= math.hypot(*COEFFICIENTS)


def test_a_step_that_is_broken_off_begins_a_new_chain() -> None:
    chain, sums = Chain(COEFFICIENTS), on_grid(2, 4, 1)

    def broken() -> None:
        with chain.unbroken():
            chain.mixed(total(sums[0]))
            raise KeyError("a bug of the user")

    with pytest.raises(KeyError):
        broken()
    np.testing.assert_array_equal(chain.mixed(total(sums[1])).tensors["w"], 64 * sums[1])


@pytest.mark.parametrize("bad", [math.nan, math.inf, 2.0**16])
def test_numbers_for_which_addition_would_round_are_refused(bad: float) -> None:
    """137 x 2^16 / 2^-30 is above 2^52."""
    with pytest.raises(PrivacyViolation, match="too large for its grid"):
        Chain(COEFFICIENTS).mixed(total(np.array([0.0, bad])))
    assert Chain(COEFFICIENTS).mixed(total(np.array([2.0**14]))).tensors["w"] == 64 * 2.0**14


@pytest.mark.parametrize("change", [{"sensitivity": 1.1}, {"grid": 2.0**-29}])
def test_sensitivity_and_grid_are_those_of_the_chain(change: dict[str, float]) -> None:
    chain = Chain(COEFFICIENTS)
    chain.mixed(total(np.zeros(2)))
    with pytest.raises(PrivacyViolation, match="changed between steps"):
        chain.mixed(total(np.zeros(2), **change))
