"""Tables for notebooks: rounded outward, escaped, and of public figures."""

from __future__ import annotations

import html
import math
from pathlib import Path

import pytest
from problems import tiny_plan, tiny_training

from discreet.core.adjacency import Adjacency
from discreet.core.guarantee import Guarantee
from discreet.core.html import fact_lines, fact_table
from discreet.verification.verify import Check, Verification


def test_a_guarantee_is_rounded_outward() -> None:
    shown = Guarantee(1.00001, 1e-5, Adjacency.ADD_REMOVE, "pld", lower=0.99999)._repr_html_()
    assert "at most 1.0001" in shown
    assert '<td style="text-align:left">0.9999</td>' in shown
    assert "infinite" in Guarantee(float("inf"), 1e-5, Adjacency.ADD_REMOVE, "pld")._repr_html_()


def test_everything_is_escaped() -> None:
    text = "<script>alert('x')</script>&"
    assert text not in fact_table(text, {text: text})
    assert fact_table(text, {text: text}).count(html.escape(text)) == 3
    assert "<img" not in Verification((Check("<img>", False, "<img>"),), "<img>")._repr_html_()


def test_a_plan_and_a_run(tmp_path: Path) -> None:
    plan = tiny_plan()
    assert f">{plan.steps} (" in plan._repr_html_()
    assert "test: it cannot be published" in tiny_training(tmp_path).run()._repr_html_()
    assert "noise multiplier" in plan._repr_html_()
    lines = str(plan).splitlines()
    assert lines[0] == "Plan"
    assert f"  noise multiplier: {plan.multipliers[0][0]:.4g}" in lines
    assert f"  epsilon: {math.ceil(plan.guarantee().epsilon * 1e4) / 1e4:.4f}" in lines


@pytest.mark.parametrize("value", [None, 3])
def test_what_is_not_there_is_left_out(value: int | None) -> None:
    assert ("name" in fact_table("", {"name": value})) is (value is not None)


def test_facts_as_lines() -> None:
    assert fact_lines("Plan", {"steps": 5, "left out": None, "delta": 1e-5}) == "Plan\n  steps: 5\n  delta: 1e-05"
