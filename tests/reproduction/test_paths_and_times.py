"""Paths on the Beale function, and seconds a step, as an experiment has them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from discreet_papers.part import Setting
from discreet_papers.parts.paths import PathsPart
from discreet_papers.parts.trained.timing import TimingPart


def test_a_path_without_noise_goes_to_the_minimum_and_is_its_own() -> None:
    rows = [{"name": "SGD", "method": "sgd", "rate": 0.05}]
    part = PathsPart.model_validate({"kind": "paths", "paths": 2, "multiplier": 2.15, "rows": rows})
    (cell,) = part.cells(None)
    found = part.measure(cell, Setting())
    assert len(found["exact"]) == len(found["private"]) == 151
    assert found["exact"][0] == found["private"][0] == [1.0, 1.0]
    assert math.dist(found["exact"][-1], (3.0, 0.5)) < 0.1
    assert 0.1 < found["distance"] < 2
    one = sum(math.dist(p, q) for p, q in zip(found["exact"], found["private"], strict=True)) / 151
    single = PathsPart.model_validate({"kind": "paths", "paths": 1, "multiplier": 2.15, "rows": rows})
    assert single.measure(single.cells(None)[0], Setting())["distance"] == pytest.approx(one, rel=1e-3)


class Results:
    """Seconds by the learning rate of the recipe."""

    def __init__(self, seconds: dict[float, list[float]]) -> None:
        self.seconds = seconds

    def of(self, facts: dict[str, Any]) -> list[tuple[int, dict[str, float]]]:
        return [(i, {"seconds": s}) for i, s in enumerate(self.seconds[facts["recipe"]["optimizer"]["lr"]])]


def test_medians_are_compared_with_the_first_row() -> None:
    rows = [
        {"name": "one", "printed": 0.5},
        {"name": "two", "printed": 2.0, "set": {"optimizer": {"lr": 2}}},
        {"name": "three", "set": {"optimizer": {"lr": 3}}},
    ]
    part = TimingPart.model_validate({"kind": "timing", "recipe": {"optimizer": {"lr": 1}}, "rows": rows, "steps": 9})
    assert len(part.cells(2)) == 6
    (table,) = part.tables(Results({1: [0.004, 0.001, 0.002], 2: [0.003], 3: []}))  # type: ignore[arg-type]
    assert table.rows == (
        ("one", "2", "1.00", "0.5", "1.00"),
        ("two", "3", "1.50", "2", "4.00"),
        ("three", "-", "-", "-", "-"),
    )
