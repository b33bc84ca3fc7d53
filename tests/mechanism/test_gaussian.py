"""The Gaussian mechanism: its noise has the standard deviation that was paid for, and is never used twice."""

import math

import numpy as np
import pytest
from scipy import stats

from discreet.core.errors import InputError, PrivacyViolation, RandomnessReuse
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat
from discreet.core.release import ClippedSum, Receipt
from discreet.mechanism import gaussian_release
from discreet.randomness import SystemStream, TestStream, new_run_key

COUNT = 200_000
FALSE_ALARM = 1e-9
"""Of each chi-square test, were the seed not fixed."""


def receipt(event: Event, position: int = 0) -> Receipt:
    return Receipt("run", 0, position, event)


def zeros(sensitivity: float = 1.0, count: int = COUNT) -> ClippedSum:
    return ClippedSum({"w": np.zeros(count)}, sensitivity)


@pytest.mark.parametrize("sensitivity", [0.01, 1.0, 250.0])
@pytest.mark.parametrize("multiplier", [0.3, 4.0])
def test_the_standard_deviation_is_multiplier_times_sensitivity(multiplier: float, sensitivity: float) -> None:
    paid = receipt(Poisson(0.1, Gaussian(multiplier)))
    noise = gaussian_release(zeros(sensitivity), paid, TestStream(11)).tensors["w"]
    chi_square = float(np.square(noise / (multiplier * sensitivity)).sum())
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], COUNT)
    assert low < chi_square < high  # within 2 % of the variance
    assert abs(noise.mean()) < 6.5 * multiplier * sensitivity / math.sqrt(COUNT)


def test_the_sum_is_released_plus_noise_in_its_shape() -> None:
    tensors = {"a": np.arange(6.0).reshape(2, 3) * 100, "b": np.array(7.0), "empty": np.zeros((0, 3))}
    paid = receipt(Gaussian(1e-9))
    release = gaussian_release(ClippedSum(tensors, 1.0), paid, TestStream(0))
    assert {name: tensor.shape for name, tensor in release.tensors.items()} == {"a": (2, 3), "b": (), "empty": (0, 3)}
    for name, tensor in tensors.items():
        assert np.allclose(release.tensors[name], tensor, rtol=0, atol=1e-7)
    assert release.tensors["a"][0, 0] != 0


def test_the_sum_itself_is_left_alone() -> None:
    total = zeros(count=5)
    gaussian_release(total, receipt(Gaussian(1.0)), TestStream(0))
    assert not total.tensors["w"].any()


def test_a_position_is_released_once() -> None:
    stream = TestStream(1)
    paid = receipt(Poisson(0.5, Gaussian(1.0)), position=3)
    gaussian_release(zeros(count=4), paid, stream)
    with pytest.raises(RandomnessReuse):
        gaussian_release(zeros(count=4), paid, stream)
    gaussian_release(zeros(count=4), receipt(paid.event, position=4), stream)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_sum_that_is_not_finite_is_refused(value: float) -> None:
    total = ClippedSum({"a": np.zeros(3), "layer.b": np.array([0.0, value])}, 1.0)
    with pytest.raises(PrivacyViolation, match=r"layer\.b"):
        gaussian_release(total, receipt(Gaussian(1.0)), TestStream(0))


@pytest.mark.parametrize("sensitivity", [0, -1, math.nan, math.inf])
def test_a_sum_without_a_finite_sensitivity_does_not_exist(sensitivity: float) -> None:
    with pytest.raises(InputError, match="sensitivity"):
        zeros(sensitivity)


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
        gaussian_release(zeros(count=2), receipt(event), TestStream(0))


def test_tensors_and_positions_get_independent_noise() -> None:
    count = 50_000
    total = ClippedSum({"a": np.zeros(count), "b": np.zeros(count)}, 1.0)
    stream = TestStream(5)
    releases = [gaussian_release(total, receipt(Gaussian(1.0), position), stream) for position in (0, 1)]
    noises = [tensor for release in releases for tensor in release.tensors.values()]
    correlation = np.corrcoef(noises)[~np.eye(4, dtype=bool)]
    assert np.abs(correlation).max() < 6.5 / math.sqrt(count)  # false alarm below 1e-9 for the twelve
    assert len(np.unique(np.concatenate(noises))) == 4 * count


def test_the_noise_of_the_operating_system_differs_between_starts() -> None:
    key = new_run_key()
    first, second = (
        gaussian_release(zeros(count=8), receipt(Gaussian(1.0)), SystemStream.start(key, 0)).tensors["w"]
        for _ in range(2)
    )
    assert not np.isin(first, second).any()


def test_noise_does_not_depend_on_the_order_of_the_tensors() -> None:
    one = gaussian_release(ClippedSum({"a": np.zeros(2), "b": np.zeros(3)}, 1.0), receipt(Gaussian(1.0)), TestStream(2))
    other = gaussian_release(
        ClippedSum({"b": np.zeros(3), "a": np.zeros(2)}, 1.0), receipt(Gaussian(1.0)), TestStream(2)
    )
    assert all(np.array_equal(one.tensors[name], other.tensors[name]) for name in "ab")


def test_event_and_receipt_travel_with_the_release() -> None:
    paid = receipt(Poisson(0.25, Gaussian(1.5)), position=9)
    release = gaussian_release(zeros(count=1), paid, TestStream(0))
    assert release.event is paid.event
    assert release.receipt is paid
