"""`Published` and `Estimate`: validated like a guarantee, and never one."""

import math

import pytest

from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.guarantee import Estimate, ExPost, Guarantee, Published, Statement


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


def test_a_reading_is_no_other_statement_and_says_what_it_is() -> None:
    reading = ExPost(4.8389984, 1e-6, Adjacency.ADD_REMOVE, "doubling-odometer")
    assert reading.kind == "ex_post"
    assert not isinstance(reading, Guarantee | Estimate | Published)
    assert "4.8390" in reading.sentence
    assert "probability at most 1e-06, at whatever time the run stops" in reading.sentence
    for epsilon, delta in ((-1.0, 1e-6), (math.nan, 1e-6), (1.0, 0.0), (1.0, 1.0)):
        with pytest.raises(InputError):
            ExPost(epsilon, delta, Adjacency.ADD_REMOVE, "doubling-odometer")


def test_a_reading_rounds_its_delta_up_in_words() -> None:
    """To the nearest, as earlier versions wrote it, 1 / 1437 is less."""
    reading = ExPost(1.0, 1 / 1437, Adjacency.ADD_REMOVE, "renyi-odometer")
    assert "probability at most 0.000695895, " in reading.sentence
    assert reading.earlier_sentence == reading.sentence.replace("0.000695895", "0.000695894")
