"""Curves, intervals and effects of columns on public rows, against scikit-learn, definitions and simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score, roc_curve

from discreet.core.array_types import Array
from discreet.data.tables import Encoder, Schema
from discreet.jobs.evaluation.curves import LEVELS, cuts, error_bounds, reliability
from discreet.jobs.evaluation.effects import effects, importances
from discreet.jobs.evaluation.public_metrics import auroc

ROWS = st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=2, max_size=200).filter(
    lambda rows: 0 < sum(yes for _, yes in rows) < len(rows)
)


@given(ROWS)
def test_thresholds_are_those_of_the_roc_curve(rows: list[tuple[int, bool]]) -> None:
    scores, positive = np.array([float(score) for score, _ in rows]), np.array([yes for _, yes in rows])
    found = cuts(scores, positive)
    false, true, _ = roc_curve(positive, scores, drop_intermediate=False)
    points = {(round(one.false / (~positive).sum(), 12), round(one.found / positive.sum(), 12)) for one in found}
    assert points == {(round(x, 12), round(y, 12)) for x, y in zip(false[1:], true[1:], strict=True)}
    assert (found[-1].found, found[-1].false) == (positive.sum(), (~positive).sum())
    x, y = [0, *(one.false for one in found)], [0, *(one.found for one in found)]
    area = np.trapezoid(y, x) / (positive.sum() * (~positive).sum())
    assert area == pytest.approx(roc_auc_score(positive, scores))
    assert area == pytest.approx(auroc(scores, positive))


def test_of_many_thresholds_sixty_are_kept_along_the_curve() -> None:
    generator = np.random.Generator(np.random.PCG64(0))
    positive = generator.random(5000) < 0.3
    scores = generator.normal(size=5000) + positive
    found = cuts(scores, positive)
    assert 50 <= len(found) <= 60
    x, y = [0, *(one.false for one in found)], [0, *(one.found for one in found)]
    area = np.trapezoid(y, x) / (positive.sum() * (~positive).sum())
    assert area == pytest.approx(roc_auc_score(positive, scores), abs=0.003)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=100))
def test_every_row_is_in_one_bin(rows: list[tuple[float, bool]]) -> None:
    said, happened = np.array([one for one, _ in rows]), np.array([yes for _, yes in rows])
    bins = reliability(said, happened)
    assert sum(one.rows for one in bins) == len(rows)
    assert sum(one.true for one in bins) == happened.sum()
    assert sum(one.said * one.rows for one in bins) == pytest.approx(said.sum())


def test_intervals_cover_new_rows_as_often_as_they_say() -> None:
    """The bound of n errors at a level covers with probability ceil((n + 1) level) / (n + 1) (Lei et al. 2018).

    20,000 draws of 39 errors and a new one; a share this far off, five deviations, happens once in a million runs.
    """
    generator = np.random.Generator(np.random.PCG64(1))
    errors, new = generator.exponential(size=(20_000, 39)), generator.exponential(size=20_000)
    covered = {level: np.zeros(20_000, bool) for level in LEVELS}
    for row, (known, one) in enumerate(zip(errors, new, strict=True)):
        for level, bound in error_bounds(known).items():
            covered[level][row] = one <= bound
    for level, seen in covered.items():
        exact = np.ceil(40 * level) / 40
        assert exact >= level
        assert seen.mean() == pytest.approx(exact, abs=5 * (exact * (1 - exact) / 20_000) ** 0.5)


def test_few_rows_have_no_interval_at_a_high_level() -> None:
    assert set(error_bounds([1.0])) == {0.5}
    assert set(error_bounds(np.arange(9.0))) == {0.5, 0.8, 0.9}
    assert error_bounds([]) == {}
    assert error_bounds([*np.arange(17.0), np.inf, np.inf]) == {0.5: 9.0, 0.8: 15.0}  # rows that no interval holds


def _table(**columns: Any) -> Encoder:
    target = {"type": "number", "low": 0, "high": 10}
    return Encoder(Schema.model_validate({"target": "y", "columns": columns | {"y": target}}))


def _data() -> tuple[Encoder, Array, Array, LinearRegression]:
    generator = np.random.Generator(np.random.PCG64(2))
    inputs = generator.random((300, 3)).astype(np.float32)
    inputs[:, 2] = (generator.integers(0, 2, 300) + 0.5) / 2
    targets = 5 * inputs[:, 0] + inputs[:, 1] + generator.normal(size=300) / 10
    encoder = _table(
        a={"type": "number", "low": 10, "high": 20},
        b={"type": "date", "low": "2020-01-01", "high": "2020-12-31"},
        c={"type": "category", "categories": ["no", "yes"]},
    )
    return encoder, inputs, targets, LinearRegression().fit(inputs, targets)


def test_importance_is_that_of_scikit_learn() -> None:
    """Five shuffles differ from a hundred by a few deviations of their mean."""
    encoder, inputs, targets, model = _data()
    found = importances(
        lambda rows: model.predict(rows)[:, None],
        inputs,
        lambda said: float(np.sqrt(np.mean((said[:, 0] - targets) ** 2))),
        encoder,
    )
    expected = permutation_importance(
        model, inputs, targets, scoring="neg_root_mean_squared_error", n_repeats=100, random_state=0
    )
    assert [one.column for one in found] == ["a", "b", "c"]
    for one, mean, deviation in zip(found, expected.importances_mean, expected.importances_std, strict=True):
        assert one.loss == pytest.approx(mean, abs=4 * deviation / 5**0.5 + 1e-9)


def test_a_column_that_the_model_ignores_weighs_nothing() -> None:
    encoder, inputs, targets, _ = _data()
    found = importances(lambda rows: rows[:, :1], inputs, lambda said: float(np.mean(said[:, 0] - targets)), encoder)
    assert {one.column: (one.loss, one.deviation) for one in found if one.column != "a"} == {"b": (0, 0), "c": (0, 0)}


def test_effects_are_those_of_scikit_learn() -> None:
    encoder, inputs, _, model = _data()
    found = effects(lambda rows: model.predict(rows)[:, None], inputs, encoder, ["a", "b", "c"])
    assert found[0].values == tuple(float(value) for value in range(10, 21))
    assert (found[1].values[0], found[1].values[-1]) == ("2020-01-01", "2020-12-31")
    assert found[2].values == ("no", "yes")
    places = [np.linspace(0, 1, 11)] * 2 + [np.array([0.5, 1.5]) / encoder.kinds[2]]
    for column, (one, grid) in enumerate(zip(found, places, strict=True)):
        expected = partial_dependence(model, inputs, [column], custom_values={column: grid}, kind="average")
        assert one.answers == pytest.approx(expected["average"][0], rel=1e-5)


def test_effects_of_many_categories_are_left_out_and_of_long_tails_follow_the_scale() -> None:
    encoder = _table(
        c={"type": "category", "categories": [str(one) for one in range(13)]},
        d={"type": "number", "low": 0, "high": 1000, "scale": "log"},
    )
    inputs = np.full((4, 2), 0.5, np.float32)
    (found,) = effects(lambda rows: rows[:, 1:], inputs, encoder, ["c", "c", "c", "c", "d"])  # the four are of the rest
    assert found.column == "d"
    assert found.values[:3] == pytest.approx((0, np.expm1(np.log1p(1000) / 10), np.expm1(np.log1p(1000) / 5)), rel=1e-4)
