"""Numbers for people: what is printed, read again, is never on the side that promises more."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.core.rounding import places_down, places_up, rounded_down, rounded_up

numbers = st.floats(0, 1e9, allow_nan=False)


@given(numbers, st.integers(0, 8))
def test_what_is_printed_is_on_the_safe_side(value: float, digits: int) -> None:
    assert float(places_down(value, digits)) <= value <= float(places_up(value, digits))
    assert Decimal(places_up(value, digits)) - Decimal(places_down(value, digits)) <= Decimal(1).scaleb(-digits)
    assert float(rounded_down(value, digits + 1)) <= value <= float(rounded_up(value, digits + 1))


@pytest.mark.parametrize("value", [0.1, 0.3, 1.1, 2.7, 3.0, 0.0001, 12.3456, 0.29])
def test_a_number_of_few_digits_is_printed_as_it_was_written(value: float) -> None:
    assert places_up(value) == places_down(value) == f"{value:.4f}"
    assert float(rounded_up(value, 6)) == float(rounded_down(value, 6)) == value


def test_a_little_more_is_a_step_more() -> None:
    """The float after k / 10^4, times 10^4, may be k: a ceiling of that product would print less than the value."""
    for k in range(1, 3000, 7):
        value = math.nextafter(k / 1e4, 2)
        assert float(places_up(value)) >= value
    assert any(math.ceil(math.nextafter(k / 1e4, 2) * 1e4) / 1e4 < math.nextafter(k / 1e4, 2) for k in range(1, 3000))


def test_what_is_infinite_is_said_to_be() -> None:
    assert places_up(math.inf) == "infinite"
    assert rounded_up(math.inf) == "inf"
