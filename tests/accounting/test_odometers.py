"""Odometers: what they read, against the paper, closed forms and other methods; and against adversaries who stop late.

The attacks are simulated with fixed seeds. A check allows 4.5 standard errors: its false-alarm rate is below 4e-6.
"""

import json
import math
from collections.abc import Iterator

import mpmath as mp
import numpy as np
import pytest

from discreet.accounting.adaptive import odometers
from discreet.accounting.adaptive.odometers import (
    FULL,
    DoublingOdometer,
    GaussianOdometer,
    Odometer,
    RenyiOdometer,
    ZcdpOdometer,
    advance,
    as_dict,
    read,
    start,
)
from discreet.accounting.theories import zcdp
from discreet.accounting.theories.paper_figures import LECUYER_ORDERS
from discreet.core.adjacency import Adjacency
from discreet.core.array_types import Array
from discreet.core.errors import InputError, NotProved
from discreet.core.events import Allocation, Epoch, Event, Gaussian, Laplace, Poisson, Repeat
from discreet.core.events.event_json import to_json
from discreet.core.guarantee import ExPost, Guarantee
from discreet.verification.recompute.odometers import reading as recomputed_reading

STEP = Poisson(512 / 50000, Gaussian(1.0))
EPOCH = 98
PLAIN = Gaussian(20.0)

ALL: list[Odometer] = [
    DoublingOdometer(1e-6),
    RenyiOdometer(1e-6),
    ZcdpOdometer.tuned(1e-6, 0.5),
    GaussianOdometer.tuned(1e-6, 4.0, 1.0),
]
assert {odometer.kind for odometer in ALL} == set(odometers.KINDS), "every kind is tested"
names = [odometer.kind for odometer in ALL]


def after(odometer: Odometer, event: Event) -> float:
    return read(odometer, advance(odometer, start(odometer), odometer.cost(event))).epsilon


# What they read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epochs", "printed"), [(20, 4.84), (6, 4.40), (50, 6.91)])
def test_the_fine_tuning_run_of_lecuyer_2021_by_his_formula(epochs: int, printed: float) -> None:
    """Section 5.2: sigma 1, 512 of 50000, delta 1e-6. His text says 4.7 at 20 epochs; equation 5 gives 4.84."""
    assert round(after(ALL[0], Repeat(STEP, epochs * EPOCH)), 2) == printed


def test_equation_5_in_closed_form() -> None:
    """One order, s = log(2 / delta) / (alpha - 1): sums up to s, 2 s, 4 s read s, 2 s, 4 s and the logarithms."""
    odometer = DoublingOdometer(1e-3, (3.0,))
    size = math.log(2e3) / 2
    for spent, number in ((0.5 * size, 1), (1.01 * size, 2), (2.01 * size, 3), (3.99 * size, 3), (4.01 * size, 4)):
        expected = 2 ** (number - 1) * size + math.log(2e3 * number**2) / 2
        assert read(odometer, (spent,)).epsilon == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("epochs", [0.02, 0.2, 1, 6, 20, 50, 300])
def test_the_mixture_is_below_equation_5_and_below_the_union_over_orders(epochs: float) -> None:
    steps = Repeat(STEP, math.ceil(epochs * EPOCH))
    mixture = after(ALL[1], steps)
    assert mixture <= after(ALL[0], steps)
    spent = ALL[1].cost(steps)
    union = min(c + math.log(38e6) / (order - 1) for c, order in zip(spent, LECUYER_ORDERS, strict=True))
    assert 0.9 * union <= mixture <= union * (1 + 1e-9)


def test_the_mixture_reaches_one_over_delta_at_the_reading() -> None:
    """The sum itself, in fifty digits."""
    spent = ALL[1].cost(Repeat(STEP, 500))
    loss = read(ALL[1], advance(ALL[1], start(ALL[1]), spent)).epsilon
    with mp.workdps(50):
        known = [(order, c) for order, c in zip(LECUYER_ORDERS, spent, strict=True) if c < FULL]
        total = mp.fsum(mp.exp((mp.mpf(order) - 1) * (mp.mpf(loss) - c)) for order, c in known) / len(LECUYER_ORDERS)
        assert 1e6 <= total <= 1e6 * (1 + 1e-8)


@pytest.mark.parametrize("rho", [0.0003, 0.02, 0.5, 7.0])
def test_the_half_normal_mixture_by_quadrature(rho: float) -> None:
    """The integral over lambda that the closed form stands for, at the reading: 1 / delta."""
    odometer = ALL[2]
    assert isinstance(odometer, ZcdpOdometer)
    loss, k, v = odometer.reading((rho,)), odometer.scale, 2 * rho
    with mp.workdps(30):

        def term(x: mp.mpf) -> mp.mpf:
            return 2 * mp.sqrt(k / (2 * mp.pi)) * mp.exp(-k * x**2 / 2 + x * (loss - rho) - x**2 * v / 2)

        centre, width = (loss - rho) / (k + v), 1 / math.sqrt(k + v)
        edges = [max(0.0, centre + width * step) for step in range(-12, 13)]
        total = mp.quad(term, sorted(set(edges)))
        assert 1e6 * (1 - 1e-9) <= total <= 1e6 * (1 + 1e-6)


def test_tuning_helps_where_it_was_asked_to() -> None:
    for rho in (0.01, 1.0, 20.0):
        tuned = ZcdpOdometer.tuned(1e-6, rho)
        least = min(ZcdpOdometer(1e-6, 2.0**k).reading((rho,)) for k in range(-20, 24))
        assert tuned.reading((rho,)) <= least * (1 + 1e-9)
        assert tuned.reading((rho,)) <= 1.3 * zcdp.epsilon_loose(rho, 1e-6)
    for mu_squared in (0.1, 1.0, 4.0):
        tuned_line = GaussianOdometer.tuned(1e-6, 4.0, mu_squared)
        lines = [GaussianOdometer(1e-6, 4.0, slope) for slope in (-0.5, 0.0, 1.0, 3.0, 10.0)]
        assert tuned_line.reading((mu_squared,)) <= min(line.reading((mu_squared,)) for line in lines)


def test_a_line_without_slope_is_the_reflection_principle() -> None:
    """P(max W >= a before T) = 2 P(W(T) >= a); for a long cap and a steep line, exp(-2 a b)."""
    flat = GaussianOdometer(1e-4, 9.0)
    with mp.workdps(30):
        assert 2 * mp.ncdf(-flat.reading((0.0,)) / 3) == pytest.approx(1e-4, rel=1e-6)
    steep = GaussianOdometer(1e-4, 500.0, 2.0)
    assert math.exp(-4 * steep.reading((0.0,))) == pytest.approx(1e-4, rel=1e-6)
    assert flat.reading((9.0,)) == pytest.approx(flat.reading((0.0,)) + 4.5)
    assert math.isinf(flat.reading((math.nextafter(9.0, 10.0),)))


# What they are ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odometer", ALL, ids=names)
def test_a_reading_is_ex_post_and_no_guarantee(odometer: Odometer) -> None:
    found = read(odometer, advance(odometer, start(odometer), odometer.cost(PLAIN)))
    assert isinstance(found, ExPost)
    assert not isinstance(found, Guarantee)
    assert (found.kind, found.delta, found.method) == ("ex_post", 1e-6, f"{odometer.kind}-odometer")
    assert "exceeds the reading" in found.sentence
    assert "at whatever time the run stops" in found.sentence
    assert read(odometer, start(odometer)).epsilon == 0


@pytest.mark.parametrize("odometer", ALL, ids=names)
def test_readings_grow_and_what_is_spent_depends_on_what_was_released_only(odometer: Odometer) -> None:
    spent, last = start(odometer), 0.0
    for count in (1, 3, 16, 80, 300, 1000):
        spent = advance(odometer, spent, odometer.cost(Repeat(PLAIN, count)))
        assert read(odometer, spent).epsilon >= last
        last = read(odometer, spent).epsilon
    assert spent == odometer.cost(Repeat(PLAIN, 1400))
    assert tuple(json.loads(json.dumps(spent, allow_nan=False))) == spent
    assert math.isinf(after(odometer, Gaussian(1e-3)))
    assert advance(odometer, spent, (math.inf,) * len(spent)) == (FULL,) * len(spent)


@pytest.mark.parametrize("odometer", ALL, ids=names)
def test_json_keeps_every_bit(odometer: Odometer) -> None:
    text = json.dumps(odometers.as_dict(odometer), allow_nan=False)
    assert odometers.from_dict(json.loads(text)) == odometer
    with pytest.raises(InputError):
        odometers.from_dict(odometers.as_dict(odometer) | {"odometer": "speed"})
    with pytest.raises(InputError):
        odometers.from_dict(odometers.as_dict(odometer) | {"delta": 0.0})


@pytest.mark.parametrize("odometer", ALL, ids=names)
@pytest.mark.parametrize("bad", [math.nan, -1.0, "1", None, True])
def test_a_cost_that_is_no_cost_is_an_error(odometer: Odometer, bad: float) -> None:
    before = start(odometer)
    for spent, cost in ((before, (*before[1:], bad)), ((*before[1:], bad), before), (before, (*before, 0.0))):
        with pytest.raises(InputError):
            advance(odometer, spent, cost)


def test_what_is_no_odometer_is_refused() -> None:
    for scale in (0.0, math.nan, math.inf):
        with pytest.raises(InputError, match="scale"):
            ZcdpOdometer(1e-6, scale)
    for cap, slope in ((0.0, 0.0), (FULL, 0.0), (1.0, -0.6), (1.0, math.nan), (1.0, math.inf)):
        with pytest.raises(InputError):
            GaussianOdometer(1e-6, cap, slope)
    with pytest.raises(InputError, match="orders"):
        RenyiOdometer(1e-6, (1.0, 2.0))


def test_what_an_odometer_has_no_theorem_for_is_refused() -> None:
    for odometer, event in ((ALL[2], STEP), (ALL[3], STEP), (ALL[3], Laplace(1.0))):
        with pytest.raises(NotProved):
            odometer.cost(event)
    with pytest.raises(NotProved):
        RenyiOdometer(1e-6, adjacency=Adjacency.REPLACE_ONE).cost(STEP)


@pytest.mark.parametrize(
    "event", [Epoch(Repeat(Gaussian(1.0), 2)), Allocation(4, 1, Gaussian(1.0))], ids=["epoch", "allocation"]
)
def test_a_line_reads_no_mixture_of_gaussians(event: Event) -> None:
    """A Gaussian dominates it, which says nothing of how often its loss exceeds a level."""
    with pytest.raises(NotProved, match="zcdp or renyi"):
        GaussianOdometer(1e-6, 40.0, adjacency=Adjacency.ZERO_OUT).cost(event)
    assert ZcdpOdometer(1e-6, 1.0, Adjacency.ZERO_OUT).cost(event)[0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("event", "adjacency"),
    [(Epoch(Repeat(Gaussian(1.0), 2)), "zero_out"), (Allocation(4, 1, Gaussian(1.0)), "replace_one")],
    ids=["epoch", "allocation"],
)
def test_nor_does_the_verifier(event: Event, adjacency: str) -> None:
    rule = {"odometer": "gdp", "delta": 1e-6, "cap": 40.0, "slope": 0.0, "adjacency": adjacency, "unit": "example"}
    with pytest.raises(InputError, match="no Gaussian loss"):
        recomputed_reading(rule, to_json(event))


def test_an_epoch_of_one_batch_is_a_gaussian() -> None:
    odometer = GaussianOdometer(1e-6, 40.0, adjacency=Adjacency.ZERO_OUT)
    assert odometer.cost(Epoch(Gaussian(1.0))) == odometer.cost(Gaussian(1.0))
    assert recomputed_reading(as_dict(odometer), to_json(Epoch(Gaussian(1.0)))) > 0


# Attacks ------------------------------------------------------------------------------------------------------------

DELTA = 1e-2
PATHS = 30_000


def growing(steps: int, ratio: float, first: float) -> Array:
    """mu^2 of Gaussian releases so that the sum grows by a factor each time: ever new scales to be lucky at."""
    sums = first * ratio ** np.arange(steps)
    return np.diff(sums, prepend=0.0)


def caught(mu_squared: Array, readings: Array) -> tuple[float, float]:
    """How often the loss is above the reading at some time, where the adversary stops; and the standard error."""
    random, loss = np.random.default_rng(11), np.zeros(PATHS)
    ahead = np.zeros(PATHS, dtype=bool)
    for mu2, reading in zip(mu_squared, readings, strict=True):
        loss += math.sqrt(mu2) * random.standard_normal(PATHS) + mu2 / 2
        ahead |= loss > reading
    share = float(ahead.mean())
    return share, math.sqrt(max(share, DELTA) / PATHS)


def readings(odometer: Odometer, mu_squared: Array) -> Iterator[float]:
    spent = start(odometer)
    for mu2 in mu_squared:
        spent = advance(odometer, spent, odometer.cost(Gaussian(1 / math.sqrt(mu2))))
        yield read(odometer, spent).epsilon


COSTS = growing(300, 1.04, 1e-4)  # sums from 0.0001 to 12


@pytest.mark.parametrize(
    "odometer",
    [
        DoublingOdometer(DELTA),
        RenyiOdometer(DELTA),
        RenyiOdometer(DELTA, (3.0,)),
        ZcdpOdometer.tuned(DELTA, 0.1),
        ZcdpOdometer(DELTA, 0.001),
        GaussianOdometer(DELTA, 13.0),
        GaussianOdometer.tuned(DELTA, 13.0, 0.5),
    ],
    ids=str,
)
def test_nobody_beats_an_odometer_at_a_time_of_their_choice(odometer: Odometer) -> None:
    share, error = caught(COSTS, np.array(list(readings(odometer, COSTS))))
    assert share <= DELTA + 4.5 * error


def test_the_naive_reading_is_caught() -> None:
    """(epsilon, delta) of what was done so far, read at every time as if that time had been fixed beforehand."""
    for conversion in (zcdp.epsilon, zcdp.epsilon_loose):
        naive = np.array([conversion(float(rho), DELTA) for rho in np.cumsum(COSTS) / 2])
        share, error = caught(COSTS, naive)
        assert share > DELTA + 4.5 * error


def test_the_line_is_tight_and_one_for_twice_the_delta_is_caught() -> None:
    costs = np.full(400, 0.01)
    tight = np.array(list(readings(GaussianOdometer(DELTA, 4.0), costs)))
    share, error = caught(costs, tight)
    assert 0.7 * DELTA < share <= DELTA + 4.5 * error  # below delta as the motion is seen at 400 times only
    loose = np.array(list(readings(GaussianOdometer(2 * DELTA, 4.0), costs)))
    assert caught(costs, loose)[0] > DELTA + 4.5 * error


@pytest.mark.parametrize("odometer", [DoublingOdometer(DELTA), RenyiOdometer(DELTA)], ids=names[:2])
@pytest.mark.parametrize("removed", [False, True])
def test_nobody_beats_an_odometer_with_sampled_releases(odometer: Odometer, removed: bool) -> None:
    """60 Poisson-sampled Gaussians, either direction; the noise of a step falls once the adversary is ahead."""
    random, rate = np.random.default_rng(3), 0.2
    loss, count = np.zeros(PATHS), np.zeros(PATHS, dtype=int)  # how many of the steps had little noise
    quiet, loud = (odometer.cost(Poisson(rate, Gaussian(noise))) for noise in (0.7, 2.0))
    ahead = np.zeros(PATHS, dtype=bool)
    for step in range(1, 61):
        bold = loss > 0.5
        noise, count = np.where(bold, 0.7, 2.0), count + bold
        taken = random.random(PATHS) < (0.0 if removed else rate)
        x = taken + noise * random.standard_normal(PATHS)
        gain = np.log1p(rate * np.expm1((2 * x - 1) / (2 * noise**2)))
        loss += -gain if removed else gain
        spents = [tuple(k * a + (step - k) * b for a, b in zip(quiet, loud, strict=True)) for k in range(step + 1)]
        table = np.array([read(odometer, tuple(min(FULL, s) for s in spent)).epsilon for spent in spents])
        ahead |= loss > table[count]
    share = float(ahead.mean())
    assert share <= DELTA + 4.5 * math.sqrt(DELTA / PATHS)
    assert (loss > 1.0).any()
