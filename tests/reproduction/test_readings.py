"""Odometers over a run as it was charged, against sums written out."""

from __future__ import annotations

import pytest

from discreet import guarantee
from discreet.accounting.adaptive.odometers import DoublingOdometer, RenyiOdometer
from discreet.core.adjacency import Adjacency, Query
from discreet.core.events import Compose, Epoch, Event, Gaussian, Poisson, Repeat
from discreet_papers.measure.readings import budget, readings

DELTA = 1e-6
STEP, LOUD, COUNT = Poisson(0.05, Gaussian(1.0)), Poisson(0.05, Gaussian(2.0)), Gaussian(100.0, Query.COUNT)


def by_hand(kind: type[DoublingOdometer] | type[RenyiOdometer], *spent: tuple[int, Event], zero: bool = False) -> float:
    odometer = kind(DELTA, adjacency=Adjacency.ZERO_OUT if zero else Adjacency.ADD_REMOVE)
    total = [0.0] * len(odometer.orders)
    for times, event in spent:
        total = [a + times * b for a, b in zip(total, odometer.cost(event), strict=True)]
    return odometer.reading(tuple(total))


@pytest.mark.parametrize(("name", "kind"), [("doubling", DoublingOdometer), ("renyi", RenyiOdometer)])
def test_what_is_charged_so_far_is_read(name: str, kind: type[DoublingOdometer] | type[RenyiOdometer]) -> None:
    """Looks within a stretch, at its end and within the next; the count between them is charged, and is no step."""
    charges = [(LOUD, 30, 1), (COUNT, 1, 0), (STEP, 40, 1)]
    read = readings(charges, [10, 30, 50, 70], DELTA, Adjacency.ADD_REMOVE)[name]
    whole = [
        by_hand(kind, (10, LOUD)),
        by_hand(kind, (30, LOUD)),
        by_hand(kind, (30, LOUD), (1, COUNT), (20, STEP)),
        by_hand(kind, (30, LOUD), (1, COUNT), (40, STEP)),
    ]
    assert read == pytest.approx(whole, rel=1e-10)
    assert read == sorted(read)


def test_an_epoch_that_was_begun_is_read_whole() -> None:
    epoch = Epoch(Repeat(Gaussian(5.0), 10))
    read = readings([(epoch, 4, 10)], [5, 20, 21], DELTA, Adjacency.ZERO_OUT)["renyi"]
    assert read == pytest.approx([by_hand(RenyiOdometer, (n, epoch), zero=True) for n in (1, 2, 3)], rel=1e-10)


def test_a_budget_is_what_renyi_accounting_says_of_the_releases() -> None:
    charges = [(LOUD, 30, 1), (COUNT, 1, 0), (STEP, 40, 1)]
    found = budget(charges, [30, 70], 1e-5, Adjacency.ADD_REMOVE)
    whole = [Repeat(LOUD, 30), Compose((Repeat(LOUD, 30), COUNT, Repeat(STEP, 40)))]
    expected = [guarantee(event, 1e-5, method="rdp").epsilon for event in whole]
    assert found == pytest.approx(expected, rel=2e-2)  # there, orders between those of the filter are tried too
    assert all(one >= other for one, other in zip(found, expected, strict=True))
