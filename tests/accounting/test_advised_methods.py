"""What a method that does not cover a plan advises in its place."""

import re

import pytest

from discreet.accounting.account import Method
from discreet.accounting.answers.compare import compare
from discreet.core.adjacency import Adjacency
from discreet.core.events import (
    Allocation,
    CyclicPoisson,
    Epoch,
    Event,
    FixedSize,
    Gaussian,
    Poisson,
    Repeat,
    TruncatedPoisson,
)

NOISE = Gaussian(2.0)
PLANS = {
    "no sampling": (Repeat(NOISE, 100), Adjacency.ADD_REMOVE),
    "Poisson": (Repeat(Poisson(0.01, NOISE), 100), Adjacency.ADD_REMOVE),
    "truncated": (Repeat(TruncatedPoisson(0.01, 40, 1000, NOISE), 100), Adjacency.ZERO_OUT),
    "fixed size": (Repeat(FixedSize(1000, 10, NOISE), 100), Adjacency.REPLACE_ONE),
    "epochs": (Repeat(Epoch(Repeat(NOISE, 10)), 5), Adjacency.ZERO_OUT),
    "allocation": (Repeat(Allocation(10, 1, NOISE), 5), Adjacency.ADD_REMOVE),
    "bands": (Repeat(CyclicPoisson(4, 0.04, NOISE), 25), Adjacency.ADD_REMOVE),
}


@pytest.mark.parametrize(("event", "adjacency"), PLANS.values(), ids=list(PLANS))
def test_methods_that_are_advised_are_available(event: Event, adjacency: Adjacency) -> None:
    rows = {row.method.value: row for row in compare(event, 1e-5, adjacency)}
    refused = {name: row.why for name, row in rows.items() if row.statement is None}
    assert refused
    for name, why in refused.items():
        _, advice = why.split("use method ", 1)
        advised = [word for word in re.findall(r"[\w-]+", advice) if word in set(Method)]
        assert advised, name
        assert not refused.keys() & advised, (name, why)
