"""Every check refuses NaN, booleans and what is not a number, whatever its range."""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from discreet.core import checks
from discreet.core.errors import DiscreetError, InputError

REAL: dict[str, Callable[[str, object], float]] = {
    "real": checks.real,
    "positive": checks.positive,
    "nonnegative": checks.nonnegative,
    "rate": checks.rate,
    "open_unit": checks.open_unit,
}
NOT_NUMBERS = [True, False, np.True_, "0.5", b"0.5", None, [0.5], (0.5,), {}, 0.5j, np.array([0.5]), Decimal("0.5")]
NANS = [math.nan, np.float64("nan"), np.float32("nan")]


@pytest.mark.parametrize("check", REAL.values(), ids=REAL)
@pytest.mark.parametrize("value", NOT_NUMBERS + NANS, ids=repr)
def test_what_is_not_a_number_is_refused(check: Callable[[str, object], float], value: object) -> None:
    with pytest.raises(InputError, match=r"^sigma must be a number") as caught:
        check("sigma", value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, DiscreetError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("check", REAL.values(), ids=REAL)
@pytest.mark.parametrize("value", [0.5, np.float64(0.5), np.float32(0.5), np.float16(0.5), Fraction(1, 2)], ids=repr)
def test_numbers_become_floats(check: Callable[[str, object], float], value: object) -> None:
    result = check("sigma", value)
    assert type(result) is float
    assert result == 0.5


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("real", [math.inf, -math.inf, 0, -3, np.int64(4)], []),
        ("positive", [5e-324, 1, 1e308, np.int32(2)], [0, 0.0, -0.0, -1, math.inf, -math.inf]),
        ("nonnegative", [0, 0.0, -0.0, 5e-324, 3], [-5e-324, -1, math.inf, -math.inf]),
        ("rate", [5e-324, 1, 1.0, 0.3], [0, -0.1, 1 + 2**-52, 2, math.inf, -math.inf]),
        ("open_unit", [5e-324, 1 - 2**-53], [0, 1, 1.0, -0.1, 2, math.inf, -math.inf]),
    ],
)
def test_ranges(name: str, good: list[float], bad: list[float]) -> None:
    for value in good:
        assert REAL[name]("x", value) == value
    for value in bad:
        with pytest.raises(InputError, match=r"^x must be .*got "):
            REAL[name]("x", value)


@pytest.mark.parametrize("value", [1, 7, 10**30, np.int64(3), np.uint8(255)], ids=repr)
def test_counts(value: int) -> None:
    assert checks.count("steps", value) == value
    assert type(checks.count("steps", value)) is int


@pytest.mark.parametrize(
    "value", [0, -1, 1.0, np.float64(2.0), math.nan, math.inf, True, "3", None, np.True_], ids=repr
)
def test_what_is_not_a_count(value: object) -> None:
    with pytest.raises(InputError, match=r"^steps must be"):
        checks.count("steps", value)


def test_integers_beyond_every_float_are_refused() -> None:
    with pytest.raises(InputError):
        checks.positive("sigma", 10**400)
