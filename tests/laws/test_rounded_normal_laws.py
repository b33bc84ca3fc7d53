"""An attack on the digits of noise succeeds on naive floating-point noise, and fails on noise on a grid.

The adversary knows sigma and that the private sum was 0 or 1, and sees one release. Naive noise, x + sigma Z in
float64, gives him certainty about x for a large share of outputs: the sets of floats that 0 + sigma Z and
1 + sigma Z can reach differ. For example, 1 + sigma Z is a multiple of 2^-53 wherever it is below 1 in size,
while the floats near 0 that sigma Z reaches are far finer. A certain exclusion is an infinite privacy loss.

Source: Mironov, "On significance of the least significant bits for differential privacy", CCS 2012 (there for
Laplace noise).
"""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special, stats

from discreet.randomness import NOISE_SAMPLERS, Purpose, Substream, TestStream, normals

Floats = npt.NDArray[np.float64]

COUNT = 200_000
SIGMA = 1.25
GRID = 2.0**-30
SCALE = int(SIGMA / GRID)
NEAREST = 6  # floats tried on each side of the one that division gives


def substream(seed: int) -> Substream:
    return TestStream(seed).substream(Purpose.NOISE, 0)


def naive(x: float, seed: int) -> Floats:
    """Release x with noise that is added in float64."""
    return x + SIGMA * normals(substream(seed), COUNT)


def on_grid(sampler: str, x: float, seed: int) -> Floats:
    """Release x with noise that is added on the grid. Exact in float64: every number is a multiple of the grid."""
    return GRID * (round(x / GRID) + NOISE_SAMPLERS[sampler].draw(substream(seed), COUNT, SCALE))


def naive_can_reach(output: Floats, x: float) -> npt.NDArray[np.bool_]:
    """Whether any float64 z at all has x + SIGMA z = output.

    If one exists, one exists close to (output - x) / SIGMA: where the noise is no finer than the output, the
    noise is output - x exactly, and otherwise some of the many noises that round to the output are products.
    """
    z = (output - x) / SIGMA
    reached = x + SIGMA * z == output
    for direction in (-np.inf, np.inf):
        near = z
        for _ in range(NEAREST):
            near = np.nextafter(near, direction)
            reached |= x + SIGMA * near == output
    return reached


def grid_can_reach(output: Floats, x: float) -> npt.NDArray[np.bool_]:
    """Whether any integer K has GRID (round(x / GRID) + K) = output."""
    steps = output / GRID - round(x / GRID)  # exact: powers of two, and less than 53 bits
    return steps == np.rint(steps)


def last_digits(output: Floats, unit: float) -> npt.NDArray[np.int64]:
    """The last eight binary digits of each output, in multiples of `unit`."""
    return np.floor(output / unit).astype(np.int64) & 255


def test_naive_noise_gives_certainty_for_many_outputs() -> None:
    for truth, other, least in ((0.0, 1.0, 0.35), (1.0, 0.0, 0.05)):
        output = naive(truth, seed=20 + int(truth))
        assert naive_can_reach(output, truth).all()  # the truth is never excluded
        assert np.mean(~naive_can_reach(output, other)) > least  # and this often certain


def test_naive_outputs_near_zero_are_finer_if_the_sum_is_zero() -> None:
    # The reason, in one line of arithmetic: (1 + v) is a multiple of 2^-53 where it is below 1 in size.
    zero, one = naive(0.0, seed=22), naive(1.0, seed=23)
    finer = [np.mean((y * 2**53 % 1 != 0)[np.abs(y) < 1]) for y in (zero, one)]
    assert finer[0] > 0.3
    assert finer[1] == 0


@pytest.mark.parametrize("sampler", NOISE_SAMPLERS)
@pytest.mark.parametrize("x", [1.0, -1.0, 1 / 3])
def test_grid_noise_never_gives_certainty(sampler: str, x: float) -> None:
    # Both sums reach exactly the multiples of the grid: every integer has positive probability under every shift.
    for truth, seed in ((0.0, 24), (x, 25)):
        output = on_grid(sampler, truth, seed)
        assert grid_can_reach(output, 0.0).all()
        assert grid_can_reach(output, x).all()


@pytest.mark.parametrize("sampler", NOISE_SAMPLERS)
@pytest.mark.parametrize("x", [1.0, 1 / 3, 77 * GRID])
def test_the_last_digits_of_grid_noise_are_uniform_whatever_the_sum(sampler: str, x: float) -> None:
    # 2 x 3 x 3 tests, each held at 5e-8: false-alarm rate below 1e-6. Cells expect 781 values.
    zero, other = (
        np.bincount(last_digits(on_grid(sampler, truth, seed), GRID), minlength=256)
        for truth, seed in ((0.0, 26), (x, 27))
    )
    for counts in (zero, other):
        assert special.chdtrc(255, np.sum((counts - COUNT / 256) ** 2) / (COUNT / 256)) > 5e-8
    assert stats.chi2_contingency([zero, other]).pvalue > 5e-8


def test_the_same_statistic_tells_naive_noise_apart() -> None:
    zero, one = (
        np.bincount(last_digits(naive(truth, seed), 2.0**-58), minlength=256) for truth, seed in ((0.0, 28), (1.0, 29))
    )
    seen = zero + one > 0
    assert stats.chi2_contingency([zero[seen], one[seen]]).pvalue < 1e-100


@pytest.mark.parametrize("sampler", NOISE_SAMPLERS)
def test_grid_noise_leaks_no_more_than_the_gaussian_does(sampler: str) -> None:
    """No threshold on the value does better than the Gaussian mechanism allows, digits included.

    The best test of 0 against 1 has advantage 2 Phi(1 / (2 SIGMA)) - 1. An adversary who learns from one half
    of the sample, by value and last digits together, and is scored on the other half stays within six standard
    errors of that; with naive noise the certain exclusions alone add more.
    """
    best = 2 * special.ndtr(0.5 / SIGMA) - 1

    def advantage(zero: Floats, one: Floats, unit: float) -> float:
        def cell(y: Floats) -> npt.NDArray[np.int64]:
            return np.clip(np.floor(2 * y), -8, 8).astype(np.int64) * 16 + 8 * 16 + (last_digits(y, unit) & 15)

        half = COUNT // 2
        learnt = [np.bincount(cell(y[:half]), minlength=17 * 16) for y in (zero, one)]
        guess_one = learnt[1] > learnt[0]
        return float(np.mean(guess_one[cell(one[half:])]) - np.mean(guess_one[cell(zero[half:])]))

    error = np.sqrt(2 * 0.25 / (COUNT // 2))
    assert advantage(on_grid(sampler, 0.0, 30), on_grid(sampler, 1.0, 31), GRID) < best + 6 * error
    assert advantage(naive(0.0, 30), naive(1.0, 31), 2.0**-57) > best + 6 * error
