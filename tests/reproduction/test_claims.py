"""Paired tests of what papers say, against SciPy and a worked example of Holm's correction."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_rel

from discreet_papers.pages.claims import claims_table, holm, paired
from discreet_papers.parts.trained.training_runs import Compared

ONE = {0: 90.1, 1: 90.9, 2: 89.7, 3: 91.2}
OTHER = {0: 89.9, 1: 89.8, 2: 89.1, 3: 90.3, 7: 50.0}


def test_the_p_value_is_that_of_scipy() -> None:
    pair = paired(ONE, OTHER)
    assert pair is not None
    assert pair.count == 4  # seed 7 has no partner
    wanted = ttest_rel(list(ONE.values()), [OTHER[seed] for seed in ONE])
    assert pair.p == pytest.approx(wanted.pvalue, rel=1e-9)
    assert pair.mean == pytest.approx(0.7)
    assert paired({0: 1.0}, {0: 2.0}) is None


def test_holm_as_worked_out_by_hand() -> None:
    """4 x 0.005, 3 x 0.01, 2 x 0.03, and 1 x 0.04, which may not be less than the one before."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_corrects_upwards_and_keeps_the_order(values: list[float]) -> None:
    found = holm(values)
    assert all(p <= q <= min(1.0, len(values) * p) for p, q in zip(values, found, strict=True))
    assert [q for _, q in sorted(zip(values, found, strict=True))] == sorted(found)


def test_a_verdict_follows_from_the_corrected_value() -> None:
    """0.013 alone would count as seen; four times that does not."""
    scores = {"a": ONE, "b": OTHER, "same": ONE, "up": {seed: value + 3 for seed, value in ONE.items()}}
    say = [Compared(says=f"{x} beats {y}", better=x, worse=y) for x, y in (("a", "b"), ("same", "a"), ("b", "up"))]
    alone = claims_table(say[:1], scores, lower_is_better=False)
    assert [row[-1] for row in alone.rows] == ["seen"]
    assert [row[-1] for row in claims_table(say[:1], scores, lower_is_better=True).rows] == ["the other way round"]
    pair = paired(ONE, OTHER)
    assert pair is not None
    many = claims_table([*say[:1]] * 4, scores, lower_is_better=False)
    assert {row[-1] for row in many.rows} == {"seen" if 4 * pair.p <= 0.05 else "not settled"}
    assert [row[-1] for row in claims_table(say, scores, lower_is_better=False).rows][1:] == [
        "not settled",
        "the other way round",
    ]
    assert not math.isnan(pair.error)
