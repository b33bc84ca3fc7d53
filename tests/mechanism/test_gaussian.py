"""The Gaussian mechanism: its noise has the standard deviation that was paid for, on the grid, and is used once."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from promises import exactly, units_of
from scipy import stats

from discreet.clipping import ENGINES, Accumulator, Clip
from discreet.core.errors import InputError, PrivacyViolation, RandomnessReuse
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.mechanism import GRID_BITS, gaussian_release, grid_for
from discreet.randomness import NOISE_SAMPLERS, RoundedSampler, Stream, SystemStream, TestStream, new_run_key
from discreet.sampling import largest_batch

COUNT = 200_000
FALSE_ALARM = 1e-9
"""Of each chi-square test, were the seed not fixed."""
FAST = NOISE_SAMPLERS["fast"]


def receipt(event: Event, position: int = 0) -> Receipt:
    return Receipt("run", 0, position, event)


def zeros(sensitivity: float = 1.0, count: int = COUNT, grid: float = 2.0**-30) -> ClippedSum:
    return ClippedSum({"w": np.zeros(count)}, sensitivity, grid)


def release_of(total: ClippedSum, paid: Receipt, stream: Stream, sampler: RoundedSampler = FAST) -> Release:
    return gaussian_release(total, paid, stream, sampler)


def scale_of(total: ClippedSum, event: Event) -> int:
    """The standard deviation that the sampler is asked for, in grid steps."""
    asked: list[int] = []

    def draw(_substream: object, n: int, scale: int) -> np.ndarray:
        asked.append(scale)
        return np.zeros(n, np.int64)

    release_of(total, receipt(event), TestStream(0), dataclasses.replace(FAST, draw=draw))
    (scale,) = set(asked)
    return scale


@pytest.mark.parametrize("sensitivity", [0.01, 1.0, 250.0])
@pytest.mark.parametrize(
    ("sampler", "multiplier", "count"), [("fast", 0.3, COUNT), ("fast", 4.0, COUNT), ("exact", 4.0, 50_000)]
)
def test_the_standard_deviation_is_multiplier_times_sensitivity(
    sampler: str, multiplier: float, count: int, sensitivity: float
) -> None:
    paid = receipt(Poisson(0.1, Gaussian(multiplier)))
    total = zeros(sensitivity, count, grid_for(paid.release, sensitivity))
    noise = release_of(total, paid, TestStream(11), NOISE_SAMPLERS[sampler]).tensors["w"]
    chi_square = float(np.square(noise / (multiplier * sensitivity)).sum())
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], count)
    assert low < chi_square < high  # within 2 % of the variance, 4 % of the smaller sample
    assert abs(noise.mean()) < 6.5 * multiplier * sensitivity / math.sqrt(count)


@pytest.mark.parametrize(
    "event", [Gaussian(0.3), Poisson(0.01, Gaussian(1.1)), Gaussian(7.7), Gaussian(200.0)], ids=str
)
@pytest.mark.parametrize("sensitivity", [1e-6, 0.7, 1.0, 1 + 2.0**-52, 3e5])
def test_the_noise_asked_for_is_at_least_multiplier_times_sensitivity_in_rationals(
    event: Event, sensitivity: float
) -> None:
    multiplier = (event.event if isinstance(event, Poisson) else event).noise_multiplier  # type: ignore[union-attr]
    grid = grid_for(receipt(event).release, sensitivity)
    asked = scale_of(zeros(sensitivity, 3, grid), event) * exactly(grid)
    least = exactly(multiplier) * exactly(sensitivity)
    assert least <= asked <= least * (1 + Fraction(1, 2**28))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rate", "population"), [(0.25, 1437), (0.01, 60_000), (1.0, 24)])
def test_a_step_gets_hardly_more_noise_than_multiplier_times_clip_norm(
    engine: str, rate: float, population: float
) -> None:
    """What the grid and the chunks add to the sensitivity costs less than 1 %, and nothing at all with `exact`."""
    event, norm = Poisson(rate, Gaussian(1.3)), 0.8
    clip = Clip(norm, grid_for(receipt(event).release, norm))
    parameters = {"w": torch.zeros(300, 100), "b": torch.zeros(())}
    total = Accumulator(parameters).total(ENGINES[engine], clip, largest_batch(rate, population))
    asked = scale_of(total, event) * exactly(clip.grid)
    assert exactly(1.3) * exactly(total.sensitivity) <= asked <= exactly(1.3) * exactly(norm) * Fraction(101, 100)
    if engine == "exact":
        assert asked <= exactly(1.3) * exactly(norm) * (1 + Fraction(1, 2**28))


@pytest.mark.parametrize("multiplier", [0.01, 0.5, 1.0, 1.7, 2.0, 1e4])
@pytest.mark.parametrize("norm", [1e-5, 0.99, 1.0, 3e3])
def test_the_grid_is_a_power_of_two_thirty_bits_below_the_noise(multiplier: float, norm: float) -> None:
    grid = grid_for(Gaussian(multiplier), norm)
    assert math.frexp(grid)[0] == 0.5
    assert 2**GRID_BITS <= multiplier * norm / grid < 2 ** (GRID_BITS + 1)
    assert GRID_BITS == 30


@pytest.mark.parametrize("sampler", NOISE_SAMPLERS)
def test_what_is_released_is_on_the_grid(sampler: str) -> None:
    paid = receipt(Poisson(0.5, Gaussian(1.1)))
    grid = grid_for(paid.release, 0.3)
    tensors = {"a": np.array([[1, -5, 2**40]]) * grid, "b": np.array(3 * grid), "c": np.zeros((2, 2))}
    release = release_of(ClippedSum(tensors, 0.3, grid), paid, TestStream(2), NOISE_SAMPLERS[sampler])
    assert len(units_of(release.tensors, grid)) == 8
    assert all(isinstance(tensor, np.ndarray) and tensor.dtype == np.float64 for tensor in release.tensors.values())


def test_the_noise_does_not_depend_on_the_sum() -> None:
    """Released minus sum is the same number, exactly, whatever the sum is: nothing is lost between their digits."""
    paid, grid = receipt(Gaussian(1.0)), 2.0**-30
    sums = [np.zeros(50), np.arange(50.0) * grid, -np.arange(50.0) * 2**40 * grid, np.full(50, 1 / 3 // grid * grid)]
    noises = [
        [
            unit - units
            for unit, units in zip(
                units_of(release_of(ClippedSum({"w": one}, 1.0, grid), paid, TestStream(4)).tensors, grid),
                units_of({"w": one}, grid),
                strict=True,
            )
        ]
        for one in sums
    ]
    assert all(noise == noises[0] for noise in noises)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_sum_is_released_plus_noise_in_its_shape(kind: type[np.floating]) -> None:
    tensors = {"a": np.arange(6.0, dtype=kind).reshape(3, 2).T * 100, "b": np.array(7.0), "empty": np.zeros((0, 3))}
    paid = receipt(Gaussian(1e-9))
    release = release_of(ClippedSum(tensors, 1.0, 2.0**-36), paid, TestStream(0))
    assert {name: tensor.shape for name, tensor in release.tensors.items()} == {"a": (2, 3), "b": (), "empty": (0, 3)}
    for name, tensor in tensors.items():
        assert np.allclose(release.tensors[name], tensor, rtol=0, atol=1e-7)
    assert release.tensors["a"][0, 0] != 0


def test_the_sum_itself_is_left_alone() -> None:
    total = zeros(count=5)
    release_of(total, receipt(Gaussian(1.0)), TestStream(0))
    assert not total.tensors["w"].any()


@pytest.mark.parametrize("sampler", NOISE_SAMPLERS)
def test_a_position_is_released_once(sampler: str) -> None:
    stream, noise = TestStream(1), NOISE_SAMPLERS[sampler]
    paid = receipt(Poisson(0.5, Gaussian(1.0)), position=3)
    release_of(zeros(count=4), paid, stream, noise)
    with pytest.raises(RandomnessReuse):
        release_of(zeros(count=4), paid, stream, noise)
    release_of(zeros(count=4), receipt(paid.event, position=4), stream, noise)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**60])
def test_a_sum_that_is_not_finite_or_too_large_is_refused(value: float, kind: type[np.floating]) -> None:
    total = ClippedSum({"a": np.zeros(3), "layer.b": np.array([0.0, value], kind)}, 1.0, 2.0**-30)
    with pytest.raises(PrivacyViolation, match=r"layer\.b"):
        release_of(total, receipt(Gaussian(1.0)), TestStream(0))


@pytest.mark.parametrize("units", [0.5, 2.0**-20, 2.0**51 + 0.5, 2.0**52, -(2.0**52), 2.0**60])
def test_a_sum_that_is_off_its_grid_or_too_large_for_it_is_refused(units: float) -> None:
    total = ClippedSum({"a": np.zeros(3), "layer.b": np.array([0.0, units * 2.0**-30])}, 1.0, 2.0**-30)
    with pytest.raises(PrivacyViolation, match=r"layer\.b is not on its grid"):
        release_of(total, receipt(Gaussian(1.0)), TestStream(0))


def test_the_largest_sum_is_released_without_rounding() -> None:
    units = 2.0**52 - 1
    total = ClippedSum({"w": np.array([units, -units])}, 1.0, 1.0)
    (high, low) = units_of(release_of(total, receipt(Gaussian(3.0)), TestStream(1)).tensors, 1.0)
    assert 0 < abs(high - int(units)) + abs(low + int(units)) < 100


def test_a_grid_too_fine_for_the_sampler_is_refused() -> None:
    with pytest.raises(InputError, match="grid"):
        release_of(zeros(count=2, grid=2.0**-60), receipt(Gaussian(1.0)), TestStream(0))


@pytest.mark.parametrize("sensitivity", [0, -1, math.nan, math.inf])
def test_a_sum_without_a_finite_sensitivity_does_not_exist(sensitivity: float) -> None:
    with pytest.raises(InputError, match="sensitivity"):
        zeros(sensitivity)


@pytest.mark.parametrize("grid", [0, -0.5, math.nan, math.inf, 0.3, 3.0, 1e-9])
def test_a_sum_whose_grid_is_no_power_of_two_does_not_exist(grid: float) -> None:
    with pytest.raises(InputError, match="grid"):
        zeros(grid=grid)


@pytest.mark.parametrize(
    "event",
    [
        Compose((Gaussian(1.0),)),
        Repeat(Gaussian(1.0), 2),
        Poisson(0.5, Compose((Gaussian(1.0), Gaussian(1.0)))),
        Poisson(0.5, Poisson(0.5, Gaussian(1.0))),
    ],
)
def test_a_receipt_for_something_else_is_refused(event: Event) -> None:
    with pytest.raises(PrivacyViolation, match="not for one Gaussian"):
        release_of(zeros(count=2), receipt(event), TestStream(0))
    with pytest.raises(PrivacyViolation, match="not for one Gaussian"):
        grid_for(receipt(event).release, 1.0)


def test_tensors_and_positions_get_independent_noise() -> None:
    count = 50_000
    total = ClippedSum({"a": np.zeros(count), "b": np.zeros(count)}, 1.0, 2.0**-48)
    stream = TestStream(5)
    releases = [release_of(total, receipt(Gaussian(1.0), position), stream) for position in (0, 1)]
    noises = [tensor for release in releases for tensor in release.tensors.values()]
    correlation = np.corrcoef(noises)[~np.eye(4, dtype=bool)]
    assert np.abs(correlation).max() < 6.5 / math.sqrt(count)  # false alarm below 1e-9 for the twelve
    assert len(np.unique(np.concatenate(noises))) == 4 * count


@pytest.mark.parametrize("sampler", NOISE_SAMPLERS)
def test_the_noise_of_the_operating_system_differs_between_starts(sampler: str) -> None:
    key, noise = new_run_key(), NOISE_SAMPLERS[sampler]
    first, second = (
        release_of(zeros(count=8), receipt(Gaussian(1.0)), SystemStream.start(key, 0), noise).tensors["w"]
        for _ in range(2)
    )
    assert not np.isin(first, second).any()


@pytest.mark.parametrize("sampler", NOISE_SAMPLERS)
def test_noise_does_not_depend_on_the_order_of_the_tensors(sampler: str) -> None:
    tensors = {"a": np.zeros(2), "b": np.zeros(3)}
    one, other = (
        release_of(
            ClippedSum({name: tensors[name] for name in order}, 1.0, 2.0**-30),
            receipt(Gaussian(1.0)),
            TestStream(2),
            NOISE_SAMPLERS[sampler],
        )
        for order in ("ab", "ba")
    )
    assert all(np.array_equal(one.tensors[name], other.tensors[name]) for name in "ab")


def test_event_and_receipt_travel_with_the_release() -> None:
    paid = receipt(Poisson(0.25, Gaussian(1.5)), position=9)
    release = release_of(zeros(count=1), paid, TestStream(0))
    assert release.event is paid.event
    assert release.receipt is paid
