"""What is printed for people never promises more than what was proved."""

import math

from hypothesis import given
from hypothesis import strategies as st

from discreet.core.rounding import rounded_down, rounded_up


@given(st.floats(1e-12, 1e12), st.integers(3, 7))
def test_rounding_is_directed_and_close(value: float, digits: int) -> None:
    below, above = float(rounded_down(value, digits)), float(rounded_up(value, digits))
    assert below <= value <= above
    assert above - below <= 10 ** (1.01 - digits) * value


def test_zero_and_infinity() -> None:
    assert (rounded_up(0.0), rounded_up(math.inf), rounded_up(1.28441)) == ("0", "inf", "1.2845")
