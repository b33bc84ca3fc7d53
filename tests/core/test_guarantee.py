"""Guarantees cannot be built from nonsense, and never pass for estimates."""

import dataclasses
import math

import pytest

from discreet.core.adjacency import Adjacency, Unit
from discreet.core.errors import InputError
from discreet.core.guarantee import Estimate, Guarantee


def made(epsilon: float = 1.0, delta: float = 1e-5, lower: float | None = None) -> Guarantee:
    return Guarantee(epsilon, delta, Adjacency.ADD_REMOVE, "pld", lower)


def test_defaults() -> None:
    found = made()
    assert (found.lower, found.unit, found.kind, found.is_finite) == (None, Unit.EXAMPLE, "guarantee", True)
    assert not made(math.inf).is_finite
    assert made(0.0, lower=0.0).epsilon == 0


@pytest.mark.parametrize("epsilon", [-1e-9, -math.inf, math.nan, True, "1", None])
def test_bad_epsilon(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        made(epsilon)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan, math.inf, True, "1e-5"])
def test_bad_delta(delta: float) -> None:
    with pytest.raises(InputError, match="delta"):
        made(delta=delta)


@pytest.mark.parametrize("lower", [-1e-9, 1.0 + 1e-9, math.nan, math.inf])
def test_bad_lower(lower: float) -> None:
    with pytest.raises(InputError, match="lower"):
        made(lower=lower)


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        made().epsilon = 0.1  # type: ignore[misc]


def test_an_estimate_is_another_type() -> None:
    estimate = Estimate(1.0, 1e-5, Adjacency.ADD_REMOVE, "clt", "a limit, not a bound")
    assert estimate.kind == "estimate"
    assert not isinstance(estimate, Guarantee)
    assert estimate != made()
    with pytest.raises((AttributeError, TypeError)):  # which one depends on the version of Python
        estimate.kind = "guarantee"  # type: ignore[misc]


def test_as_text_it_is_one_line_rounded_to_the_safe_side() -> None:
    assert str(made(1.00001, lower=0.99999)) == (
        "epsilon 1.0001 (at least 0.9999) at delta 1e-05, add_remove, unit example, by pld"
    )
    assert str(made(math.inf)) == "epsilon infinite at delta 1e-05, add_remove, unit example, by pld"
    delta = 1 / 1437  # six digits of it, to the nearest, are less
    assert " at delta 0.000695895, " in str(made(delta=delta))
    assert '<td style="text-align:left">0.000695895</td>' in made(delta=delta)._repr_html_()
