"""Numbers of low precision and counts beyond reason never make a bound too small.

Comparing a float with a NumPy number of 16 or 32 bits rounds the float first, so every such number must become a float
at the door. References: the same call with plain floats, and closed forms.
"""

from collections.abc import Callable

import numpy as np
import pytest

from discreet.accounting.account import PROVING, Method, account, guarantee
from discreet.accounting.adaptive.filter_decision import decide
from discreet.accounting.adaptive.filters import BasicFilter, Filter, GaussianFilter, RdpOrderFilter, ZcdpFilter
from discreet.accounting.adaptive.odometers import GaussianOdometer, ZcdpOdometer
from discreet.accounting.answers.calibrate import calibrate_noise
from discreet.accounting.answers.profile import delta_at, group_guarantee
from discreet.accounting.theories import gdp, zcdp
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Compose, Event, FixedSize, Gaussian, Laplace, Poisson, Repeat
from discreet.core.guarantee import Guarantee
from discreet.plan import NoSampling, Plan

LOW = [np.float16, np.float32]
EVENTS: list[tuple[Event, Adjacency]] = [
    (Gaussian(1.0), Adjacency.ADD_REMOVE),
    (Poisson(0.1, Gaussian(1.0)), Adjacency.ADD_REMOVE),
    (FixedSize(5, 1, Gaussian(1.6)), Adjacency.REPLACE_ONE),
]


@pytest.mark.parametrize("kind", LOW)
@pytest.mark.parametrize(("event", "adjacency"), EVENTS)
@pytest.mark.parametrize("method", Method)
def test_a_delta_of_low_precision_is_the_float_that_it_equals(
    event: Event, adjacency: Adjacency, method: Method, kind: Callable[[float], float]
) -> None:
    delta = kind(1e-3)
    try:
        plain = account(event, float(delta), adjacency, method)
    except (NotProved, InputError):  # zcdp-rs has a range
        return
    found = account(event, delta, adjacency, method)
    assert found == plain
    assert type(found.delta) is float
    if method in PROVING:
        assert guarantee(event, delta, adjacency, method) == plain


@pytest.mark.parametrize("kind", LOW)
def test_other_questions_take_numbers_of_low_precision(kind: Callable[[float], float]) -> None:
    event, number = Repeat(Poisson(0.1, Gaussian(2.0)), 3), kind(0.1)
    plain = float(number)
    assert delta_at(event, number) == delta_at(event, plain)
    assert group_guarantee(event, 2, number) == group_guarantee(event, 2, plain)
    assert calibrate_noise(Gaussian, number, kind(0.01)) == calibrate_noise(Gaussian, plain, float(kind(0.01)))
    plan = Plan.make(NoSampling(), population=10, steps=1, clip_norm=1.0, delta=1e-6, adjacency="zero_out")
    assert plan.calibrate(number) == plan.calibrate(plain)
    assert plan.guarantee(number) == plan.guarantee(plain)


@pytest.mark.parametrize("kind", LOW)
@pytest.mark.parametrize(
    "make",
    [
        lambda limit: GaussianFilter(mu_squared=limit, delta=1e-5),
        lambda limit: ZcdpFilter(rho=limit, delta=1e-5),
        lambda limit: RdpOrderFilter(order=4.0, limit=limit, delta=1e-5),
        lambda limit: BasicFilter(epsilon=limit, delta=1e-5),
    ],
)
def test_a_limit_of_low_precision_admits_nothing_above_it(
    make: Callable[[float], Filter], kind: Callable[[float], float]
) -> None:
    limit = kind(0.1)
    found, plain = make(limit), make(float(limit))
    assert found == plain
    rest = (0.0,) * (len(found.limits) - 1)
    above = (float(np.nextafter(float(limit), 1.0)), *rest)
    assert not decide(found, (0.0,) * len(found.limits), above).admitted
    assert decide(found, (0.0,) * len(found.limits), (float(limit), *rest)).admitted


@pytest.mark.parametrize("kind", LOW)
def test_odometers_take_numbers_of_low_precision(kind: Callable[[float], float]) -> None:
    cap = kind(0.1)
    assert GaussianOdometer(delta=1e-5, cap=cap).reading((float(np.nextafter(float(cap), 1.0)),)) == np.inf
    assert ZcdpOdometer(delta=1e-5, scale=cap) == ZcdpOdometer(delta=1e-5, scale=float(cap))


def test_what_underflows_is_counted_all_the_same() -> None:
    """Truth: mu of 10^300 Laplace releases of epsilon 1e-162 is about 1e-12, and delta(0) about 4e-13."""
    many = Compose((Repeat(Laplace(1e162), 10**300),))
    assert guarantee(many, 1e-20, method=Method.ZCDP).epsilon > 0
    assert zcdp.pure(1e-170) > 0
    joint = Poisson(1.0, Compose((Repeat(Gaussian(2e162), 10**308), Gaussian(1e9))))
    found = guarantee(joint, 1e-9)
    assert isinstance(found, Guarantee)
    assert gdp.delta_bounds(5.1e-9, found.epsilon)[0] <= 1e-9  # true mu, delta(0) = 2.03e-9
