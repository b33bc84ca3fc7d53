"""What pages show of metrics on public rows."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from discreet.core.metric_names import no_better
from discreet.publication.pages.public_evaluation import shown, wilson

METRICS = {
    "accuracy": 0.75,
    "baseline accuracy": 0.8,
    "recall: well": 0.8,
    "recall: ill as ever": 0.5,
    "rows: well as well": 64.0,
    "rows: well as ill as ever": 16.0,
    "rows: ill as ever as well": 10.0,
    "rows: ill as ever as ill as ever": 10.0,
}


@pytest.mark.parametrize(("right", "rows"), [(0, 1), (1, 1), (3, 7), (50, 60), (999, 1000)])
def test_wilson_against_scipy(right: int, rows: int) -> None:
    found = binomtest(right, rows).proportion_ci(method="wilson")
    assert wilson(right, rows) == pytest.approx((found.low, found.high), abs=1e-12)


def test_classes_come_with_their_rows() -> None:
    """Also where a class is called as a name of a metric reads."""
    found = shown(METRICS)
    assert found.figures == {"accuracy": 0.75, "baseline accuracy": 0.8}
    assert [(one.name, one.said, one.share) for one in found.classes] == [
        ("well", (64, 16), 0.8),
        ("ill as ever", (10, 10), 0.5),
    ]
    assert found.useless


def test_a_class_without_rows_leaves_the_matrix_out() -> None:
    """Its recall is not known; old certificates count no rows at all."""
    assert shown({"accuracy": 0.9, "recall: a": 0.9}).classes == ()
    assert shown({"accuracy": 0.9}).classes == ()
    assert shown({}).figures == {}


GROUPED = {
    "accuracy": 0.75,
    "sex=f: rows": 40.0,
    "sex=f: accuracy": 0.8,
    "sex=f: auroc": 0.9,
    "kind=a: b: rows": 20.0,
    "kind=a: b: accuracy": 0.65,
    "recall: rows": 0.5,
}


def test_subgroups_come_with_their_rows_and_intervals() -> None:
    """Also where a category, or a class, is called as a name of a metric reads."""
    found = shown(GROUPED)
    assert found.figures == {"accuracy": 0.75, "sex=f: auroc": 0.9}
    assert [(one.name, one.rows, one.measure, one.value) for one in found.groups] == [
        ("sex=f", 40, "accuracy", 0.8),
        ("kind=a: b", 20, "accuracy", 0.65),
    ]
    for one, right in zip(found.groups, (32, 13), strict=True):
        interval = binomtest(right, one.rows).proportion_ci(method="wilson")
        assert (one.low, one.high) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_of_numbers_and_of_several_labels() -> None:
    numbers = shown({"rmse": 2.0, "sex=f: rows": 12.0, "sex=f: rmse": 2.5, "sex=f: mae": 1.0})
    assert [(one.name, one.value, one.low) for one in numbers.groups] == [("sex=f", 2.5, None)]
    assert numbers.figures == {"rmse": 2.0, "sex=f: mae": 1.0}
    labels = shown({"sex=f: rows": 10.0, "sex=f: ill: accuracy": 0.9, "sex=f: old: accuracy": 0.5})
    assert [(one.name, one.value) for one in labels.groups] == [("sex=f: ill", 0.9), ("sex=f: old", 0.5)]
    assert shown({"sex=f: accuracy": 0.9}).groups == ()  # an early certificate, which counts no rows


def test_errors_of_days_have_a_unit() -> None:
    """What is left blank is the unit of the column."""
    found = shown(
        {"rmse": 2.0, "mae": 1.0, "loss": 0.1, "sex=f: rows": 12.0, "sex=f: rmse": 2.5}, {"discharged": "date"}
    )
    assert found.units == {"rmse": " days", "mae": " days", "loss": ""}
    assert [one.unit for one in found.groups] == [" days"]
    assert set(shown({"rmse": 2.0}, {"stay": "number"}).units.values()) == {""}
    several = {"day: rmse": 2.0, "birthday: rmse": 2.0, "sex=f: rows": 12.0, "sex=f: day: baseline rmse": 2.5}
    kinds = {"day": "date", "birthday": "number"}
    assert shown(several, kinds).units == {
        "day: rmse": " days",
        "birthday: rmse": "",
        "sex=f: day: baseline rmse": " days",
    }


def balanced(value: float) -> dict[str, float]:
    return {"balanced accuracy": value, "baseline balanced accuracy": 0.5}


@pytest.mark.parametrize(
    ("metrics", "useless"),
    [
        ({"accuracy": 0.8, "baseline accuracy": 0.8}, True),
        ({"accuracy": 0.81, "baseline accuracy": 0.8}, False),
        ({"rmse": 2.0, "baseline rmse": 1.9}, True),
        ({"rmse": 1.8, "baseline rmse": 1.9}, False),
        ({"a: rmse": 2.0, "a: baseline rmse": 1.9, "b: rmse": 1.0, "b: baseline rmse": 1.9}, False),
        ({"a: rmse": 2.0, "a: baseline rmse": 1.9, "b: rmse": 2.0, "b: baseline rmse": 1.9}, True),
        ({"rmse": 2.0, "baseline rmse": 1.9, "w=1: rows": 9, "w=1: rmse": 1.0, "w=1: baseline rmse": 1.9}, True),
        ({"accuracy": 0.1}, False),
        ({"accuracy": 0.7, "baseline accuracy": 0.8} | balanced(0.6), False),
        ({"accuracy": 0.9, "baseline accuracy": 0.8} | balanced(0.5), True),
    ],
)
def test_a_model_that_is_no_better_than_one_answer(metrics: dict[str, float], useless: bool) -> None:
    assert no_better(metrics) is useless
