"""Events validate themselves, never change, and count in one place."""

import dataclasses
import math

import numpy as np
import pytest

from discreet.core.adjacency import Query
from discreet.core.errors import InputError
from discreet.core.events import (
    Allocation,
    Compose,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Repeat,
    TruncatedPoisson,
    flatten,
    tally,
)
from discreet.core.events.event_json import from_json, to_json

ONE = Gaussian(1.0)
DRAWS = (
    Poisson(0.1, ONE),
    TruncatedPoisson(0.1, 20, 100, ONE),
    FixedSize(100, 10, ONE),
    Epoch(Repeat(ONE, 10)),
    Allocation(10, 2, ONE),
)
"""One of every sampler."""


@pytest.mark.parametrize("noise", [0, -1.0, math.nan, math.inf, True, "1", None])
def test_noise_is_positive_and_finite(noise: float) -> None:
    with pytest.raises(InputError, match="noise_multiplier"):
        Gaussian(noise)
    with pytest.raises(InputError, match="scale_multiplier"):
        Laplace(noise)


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, math.nan, math.inf, True, "0.1"])
def test_rates(rate: float) -> None:
    with pytest.raises(InputError, match="rate"):
        Poisson(rate, ONE)


@pytest.mark.parametrize("count", [0, -1, 1.0, math.nan, True, "2"])
def test_counts(count: int) -> None:
    with pytest.raises(InputError, match="count"):
        Repeat(ONE, count)


@pytest.mark.parametrize("inner", [None, 1.0, "gaussian", (ONE,), Gaussian])
def test_only_events_inside_events(inner: Event) -> None:
    with pytest.raises(InputError, match=r"Poisson\.event must be an event"):
        Poisson(0.1, inner)
    with pytest.raises(InputError, match=r"Repeat\.event must be an event"):
        Repeat(inner, 2)
    with pytest.raises(InputError, match=r"Compose\.events\[1\] must be an event"):
        Compose((ONE, inner))


@pytest.mark.parametrize("draw", DRAWS)
def test_draws_need_events_and_survive_json(draw: Event) -> None:
    assert from_json(to_json(draw)) == draw
    with pytest.raises(InputError, match=r"\.event must be an event"):
        dataclasses.replace(draw, event="gaussian")  # type: ignore[arg-type]


def test_nobody_is_drawn_twice() -> None:
    with pytest.raises(InputError, match="must not exceed the population"):
        FixedSize(10, 11, ONE)
    with pytest.raises(InputError, match="must not exceed steps"):
        Allocation(2, 3, ONE)


def test_unknown_query_lists_the_known() -> None:
    with pytest.raises(
        InputError, match="unknown query 'sum'; known: clipped_sum, centred_bit, covariance, count, histogram, loss"
    ):
        Gaussian(1.0, "sum")  # type: ignore[arg-type]


@pytest.mark.parametrize("event", [ONE, Laplace(1.0), *DRAWS, Repeat(ONE, 2), Compose((ONE,))])
def test_frozen_and_without_room_for_more(event: Event) -> None:
    name = dataclasses.fields(event)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, name, 2)
    with pytest.raises((AttributeError, TypeError)):
        event.note = "x"  # type: ignore[union-attr]


def test_equal_values_are_equal_events_whatever_their_type() -> None:
    plain = Repeat(Poisson(0.5, Gaussian(2.0, Query.COUNT)), 3)
    numpy = Repeat(Poisson(np.float64(0.5), Gaussian(np.float32(2), "count")), np.int64(3))  # type: ignore[arg-type]
    assert plain == numpy
    assert hash(plain) == hash(numpy)
    assert type(numpy.count) is int
    assert Compose([ONE]) == Compose((ONE,))  # type: ignore[arg-type]


def test_counts_multiply_through_nesting() -> None:
    event = Repeat(Compose((ONE, Repeat(Compose((ONE, Poisson(0.1, Repeat(ONE, 7)))), 3))), 5)
    assert tally(event) == {ONE: 20, Poisson(0.1, Repeat(ONE, 7)): 15}
    assert list(flatten(event)) == [(ONE, 5), (ONE, 15), (Poisson(0.1, Repeat(ONE, 7)), 15)]
    assert tally(Repeat(Compose(()), 9)) == {}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "an event must be an object"),
        ([], "an event must be an object"),
        ({"name": "gaussian"}, "an event must be an object"),
        ({"event": 3}, "an event must be an object"),
        (
            {"event": "uniform"},
            "unknown event 'uniform'; known: allocation, bounded_range, compose, cyclic_poisson, epoch",
        ),
        ({"event": "laplace", "scale_multiplier": 1.0}, "needs exactly the fields"),
        ({"event": "laplace", "scale_multiplier": 0, "query": "count"}, "scale_multiplier must be"),
        ({"event": "gaussian", "noise_multiplier": 1.0}, "needs exactly the fields"),
        ({"event": "gaussian", "noise_multiplier": 1.0, "query": "count", "x": 1}, "needs exactly the fields"),
        ({"event": "gaussian", "noise_multiplier": math.nan, "query": "count"}, "noise_multiplier must be a number"),
        ({"event": "gaussian", "noise_multiplier": "1", "query": "count"}, "noise_multiplier must be a number"),
        ({"event": "repeat", "count": 2.0, "of": {"event": "compose", "of": []}}, "count must be a whole number"),
        ({"event": "compose", "of": {}}, "needs a list"),
        ({"event": "poisson", "rate": 2, "of": {"event": "compose", "of": []}}, "rate must be"),
    ],
)
def test_bad_json(data: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_json(data)
