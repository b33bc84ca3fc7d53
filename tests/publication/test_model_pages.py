"""What report and card say of the model itself, from model.json: title, columns, charts; and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from discreet.certificate.described import About, Measured, OnPublicRows
from discreet.certificate.model_spec import ModelSpec, Named
from discreet.core.errors import InputError
from discreet.publication.pages.charts.model_charts import figures
from discreet.publication.pages.contents import use_on_command_line
from discreet.publication.pages.purpose import purpose

SEEN: dict[str, Any] = {
    "rows": 4,
    "positive": "<ill>",
    "cuts": [{"score": 0.9, "found": 1, "false": 0}, {"score": 0.1, "found": 2, "false": 2}],
    "bins": [{"said": 0.1, "rows": 2, "true": 0}, {"said": 0.9, "rows": 2, "true": 2}],
    "score": "auroc",
    "weights": [{"column": "age & sex", "loss": 0.2, "deviation": 0.05}],
    "effects": [
        {"column": "age", "values": [0.0, 50.0, 100.0], "answers": [0.1, 0.2, 0.9]},
        {"column": "ward", "values": ["A", "B"], "answers": [0.5, 0.5]},
    ],
}
SPEC = ModelSpec(
    model=Named("tabular"),
    outputs="classes",
    table={
        "format": "discreet-table/1",
        "schema": {
            "target": ["ill"],
            "columns": {
                "age": {"type": "number", "low": 0.0, "high": 100.0},
                "ward": {"type": "category", "categories": list("ABCDEFGH")},
                "name": {"type": "ignore"},
                "ill": {"type": "boolean"},
            },
        },
    },
    about=About(title="Illness | by <ward>", note="For nurses.", date="2026-11-23", defaults=("A linear model.",)),
    public_rows=OnPublicRows.model_validate(SEEN),
    measured=Measured.model_validate(
        {
            "date": "2026-11-25",
            "false_alarm": 0.001,
            "checks": [
                {"name": "replay/huge", "said": "one unit moves <1 of the sensitivity"},
                {"name": "draws", "said": "1817 draws", "p": 0.25},
                {"name": "draws, more units", "said": "2128 draws", "p": 0.125},
            ],
        }
    ),
)


def test_a_spec_is_read_as_it_was_written() -> None:
    assert ModelSpec.from_json(SPEC.to_json()) == SPEC
    bare = replace(SPEC, about=None, public_rows=None, measured=None)
    assert ModelSpec.from_json(bare.to_json()) == bare
    assert not {"about", "public_rows", "measured"} & set(json.loads(bare.to_json()))


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("about", "title", "x" * 2001),
        ("about", "date", "yesterday"),
        ("about", "script", "alert(1)"),
        ("public_rows", "rows", 0),
        ("public_rows", "cuts", [{"score": 0.5, "found": -1, "false": 0}]),
        ("public_rows", "bins", [{"said": 0.5, "rows": 0, "true": 0}]),
        ("public_rows", "effects", [{"column": "a"}] * 1001),
        ("public_rows", "weights", "many"),
    ],
)
def test_anything_else_is_refused_by_its_field(part: str, field: str, value: Any) -> None:
    facts = json.loads(SPEC.to_json())
    facts[part][field] = value
    with pytest.raises(InputError, match=rf"model\.json: {part}\.{field}"):
        ModelSpec.from_json(json.dumps(facts))


def test_a_chart_for_everything_that_is_known() -> None:
    drawn = figures(SPEC.public_rows)
    assert [one.caption for one in drawn] == [
        "ROC curve",
        "Precision and recall",
        "Calibration",
        "What the answers rest on",
        "Effect of age",
        "Effect of ward",
    ]
    for one in drawn:
        assert one.chart.startswith("<svg")
        assert "age &amp; sex" in one.chart or "age & sex" not in one.chart
    identifiers = re.findall(r'id="([\w-]+)-title"', "".join(one.chart for one in drawn))
    assert len(set(identifiers)) == len(drawn)
    assert figures(None) == []
    assert figures(OnPublicRows(rows=3)) == []


@pytest.mark.parametrize(
    ("values", "joined"),
    [(["Berlin", "Kiel", "Bonn", "Mainz", "Ulm"], False), (["2020-01-01", "2021-01-01", "2022-01-01"], True)],
)
def test_categories_are_named_points_and_days_a_line(values: list[str], joined: bool) -> None:
    effect = {"column": "city", "values": values, "answers": [0.1, 0.4, 0.2, 0.3, 0.5][: len(values)]}
    (drawn,) = figures(OnPublicRows.model_validate({"rows": 3, "effects": [effect]}))
    assert all(value in drawn.chart for value in values)
    assert ("fill: none; stroke: var(--accent)" in drawn.chart) == joined


@pytest.mark.parametrize("found", [0, 2])
def test_counts_that_contradict_each_other_are_drawn_or_left_out_but_break_nothing(found: int) -> None:
    """A published folder may say anything; the page must still be written, so that it can be compared."""
    strange = SEEN | {"cuts": [{"score": 0, "found": 9, "false": 9}, {"score": 1, "found": found, "false": 1}]}
    strange |= {
        "bins": [{"said": 7.0, "rows": 1, "true": 9}],
        "effects": [{"column": "a", "values": [1], "answers": []}],
    }
    drawn = figures(OnPublicRows.model_validate(strange))
    assert ("ROC curve" in {one.caption for one in drawn}) == (found == 2)
    assert "Effect of a" not in {one.caption for one in drawn}


def test_what_it_is_for() -> None:
    found = purpose(SPEC)
    assert found.title == "Illness | by <ward>"
    assert found.target == "ill"
    assert found.columns == (("age", "number from 0 to 100"), ("ward", "category of A, B, C, D, E, F and 2 more"))
    schema = {"unit": "ward", "row_id": "age", "target": "ill", "columns": SPEC.table["schema"]["columns"]}
    assert purpose(ModelSpec(table={"schema": schema})).columns == ()  # no model sees who a row is of
    photos = {"columns": {"path": {"type": "image"}, "class": {"type": "boolean"}}, "row_id": "path", "target": "class"}
    assert purpose(ModelSpec(table={"schema": photos})).columns == (("path", "image"),)
    assert use_on_command_line(replace(SPEC, table={"schema": photos})) == "discreet predict FOLDER photos/"
    assert use_on_command_line(SPEC) == "discreet predict FOLDER new.csv"
    assert purpose(replace(SPEC, about=None)).title == "A private model of ill"
    assert purpose(ModelSpec()).title == "A neural network trained with differential privacy"
    for schema in (None, [], {"target": 3}, {"columns": {"a": 1}}, {"target": "y", "columns": "x"}):
        assert purpose(ModelSpec(table={"schema": schema})).columns == ()
