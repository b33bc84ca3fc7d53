"""`Published` and `Estimate`: validated like a guarantee, and never one."""

import math

import pytest

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.guarantee import Estimate, Guarantee, Published, Statement


def published(epsilon: float = 1.0, delta: float = 1e-5) -> Published:
    return Published(epsilon, delta, Adjacency.ADD_REMOVE, "moments", "a paper", "a reason")


def estimate(epsilon: float = 1.0, delta: float = 1e-5) -> Estimate:
    return Estimate(epsilon, delta, Adjacency.ADD_REMOVE, "clt", "a reason")


@pytest.mark.parametrize(("statement", "kind"), [(published(), "as_published"), (estimate(), "estimate")])
def test_kinds(statement: Statement, kind: str) -> None:
    assert statement.kind == kind
    assert not isinstance(statement, Guarantee)
    with pytest.raises((AttributeError, TypeError)):  # frozen
        statement.kind = "guarantee"  # type: ignore[misc]


@pytest.mark.parametrize("make", [published, estimate])
def test_nonsense_is_refused(make: type) -> None:
    for epsilon in (-1.0, math.nan, "1"):
        with pytest.raises(InputError, match="epsilon"):
            make(epsilon=epsilon)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            make(delta=delta)
    assert make(epsilon=math.inf).epsilon == math.inf
