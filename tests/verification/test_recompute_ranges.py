"""The price of one choice: both programs against a search over all mechanisms with two outcomes, and attacks."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from discreet import guarantee
from discreet.accounting.theories import pure
from discreet.core.adjacency import Adjacency
from discreet.core.errors import InputError
from discreet.core.events import BoundedRange
from discreet.verification.recompute.bounded_range import decide_choice, range_bound, range_delta
from discreet.verification.recompute.events import MAX_DEPTH
from discreet.verification.recompute.exponential import apart

RANGES = (1e-3, 0.1, 1.0, 2.5, 8.0, 30.0)


def worst(span: float, x: float) -> float:
    """The largest P(S) - e^x Q(S), both directions, of pairs on two points with log(P / Q) in [t - span, t].

    Brute force over t and over both ratios, which need not lie at the ends; Q is then fixed by its sum. Dong, Durfee
    and Rogers (2020) prove that two points are enough; nothing of their formula is used.
    """
    found = 0.0
    for t in np.linspace(0, span, 1001):
        ups = np.linspace(0, t, 13)[1:, None]
        downs = np.linspace(t - span, 0, 13)[None, :-1]
        q = np.expm1(-downs) * np.exp(downs) / (np.exp(ups) - np.exp(downs))  # of the likelier outcome under P
        p = q * np.exp(ups)
        for one, other in ((p, q), (1 - q, 1 - p)):
            if one.size:
                found = max(found, float(np.max(one - math.exp(x) * other)))
    return found


@pytest.mark.parametrize("span", [0.1, 1.0, 2.5, 8.0])
def test_the_curve_is_the_worst_of_all_mechanisms_with_two_outcomes(span: float) -> None:
    for share in (0.0, 0.2, 0.5, 0.9, 0.99):
        exact, brute = range_delta(span, share * span), worst(span, share * span)
        assert brute <= exact * (1 + 1e-9)
        assert exact <= brute * 1.01 + 1e-9, "and it is attained"
    assert range_delta(span, span) == 0, "a range of losses is pure"


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("span", RANGES)
def test_trainer_and_verifier_agree(span: float, delta: float) -> None:
    """Two programs, a closed form and a bisection; scipy's root of the curve is the third."""
    verified, priced = range_bound(span, delta), pure.bounded_range_epsilon(span, delta)
    exact = 0.0
    if -(math.expm1(-span / 2) ** 2) / math.expm1(-span) > delta:
        root = brentq(lambda x: math.log(math.expm1((x - span) / 2) ** 2 / -math.expm1(-span) / delta), 0, span - 1e-13)
        exact = float(root)
    assert exact * (1 - 1e-9) - 1e-10 <= verified <= exact + 1e-9 * (1 + span)
    assert exact * (1 - 1e-9) - 1e-10 <= priced <= exact + 1e-9 * (1 + span)
    found = guarantee(BoundedRange(span), delta, Adjacency.ADD_REMOVE)
    assert verified <= found.epsilon * (1 + 1e-9) + 1e-10
    assert found.epsilon <= priced * (1 + 1e-9) + 1e-10
    assert decide_choice(span, delta, verified).accepted
    if verified > 1e-6:
        assert not decide_choice(span, delta, 0.999 * verified).accepted


def test_choices_in_too_many_compositions_are_refused() -> None:
    nested: Any = {"event": "bounded_range", "epsilon": 0.1, "query": "count"}
    for _ in range(MAX_DEPTH + 1):
        nested = [nested]
    apart(nested[0], "add_remove")
    with pytest.raises(InputError, match="nested more than 64 deep"):
        apart(nested, "add_remove")


@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 50.0, 300.0])
def test_the_largest_range_costs_what_it_may_and_hardly_less(epsilon: float, delta: float) -> None:
    span = pure.largest_range(epsilon, delta)
    assert range_bound(span, delta) <= epsilon
    assert range_bound(span * (1 + 1e-6), delta) > epsilon * (1 + 1e-7) or epsilon < 1e-5
    assert span > epsilon


def test_no_score_of_a_small_data_set_leaves_the_curve() -> None:
    """The exponential mechanism on one-sided scores, enumerated: a unit adds 0 or 1 to each of three scores."""
    span, moves = 1.3, np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, -1).T
    deltas = dict.fromkeys((0.0, 0.4, 0.9, 1.29), 0.0)
    for scores in np.array(np.meshgrid(range(6), range(6), [0])).reshape(3, -1).T:
        for move in moves:
            p, q = (np.exp(span * s) / np.exp(span * s).sum() for s in (scores, scores + move))
            for x in deltas:
                for one, other in ((p, q), (q, p)):
                    deltas[x] = max(deltas[x], float(np.maximum(one - math.exp(x) * other, 0).sum()))
    for x, found in deltas.items():
        assert 0.5 * range_delta(span, x) - 1e-3 <= found <= range_delta(span, x)


@pytest.mark.parametrize("span", [0.0, -1.0, math.nan, math.inf, True, "1", None])
def test_what_is_no_range_is_refused(span: object) -> None:
    with pytest.raises(InputError):
        range_bound(span, 1e-5)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        range_bound(1.0, 1.0)
    with pytest.raises(InputError):
        decide_choice(1.0, 1e-5, math.nan)
