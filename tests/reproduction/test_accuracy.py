"""A sample of recipes, trained: their accuracy is what it was.

The means and standard deviations were measured on 2026-11-22 over runs with fresh noise. A new run is expected within
mean ± t s sqrt(1 + 1/n), Student's t with n - 1 degrees of freedom: if accuracies are normal, a correct run is outside
once in 10,000 times.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scipy.special import stdtrit

from discreet_papers.experiment import read_experiment
from discreet_papers.measure.runs import take
from discreet_papers.part import Setting, over

FALSE_ALARMS = 1e-4


@dataclass(frozen=True)
class Measured:
    """A run of an experiment with some keys of its recipe set otherwise, and the accuracies of `runs` of them."""

    experiment: str
    cell: str
    mean: float
    deviation: float
    runs: int
    epsilon: float
    set: dict[str, Any]

    @property
    def band(self) -> tuple[float, float]:
        t = float(stdtrit(self.runs - 1, 1 - FALSE_ALARMS / 2))
        half = t * self.deviation * (1 + 1 / self.runs) ** 0.5
        return self.mean - half, self.mean + half

    def accuracy(self, changes: dict[str, Any] | None = None) -> float:
        """That of a new run, on public test rows."""
        cells = [cell for _, cell in read_experiment(self.experiment, "full").cells()]
        (cell,) = (cell for cell in cells if cell.name.endswith(self.cell))
        facts = over(cell.facts, {"recipe": over(self.set, changes or {})})
        folder = os.environ.get("DISCREET_DATA")
        result = take(type(cell)(cell.name, facts, cell.seed), Setting(None if folder is None else Path(folder)))
        assert result["epsilon"] <= self.epsilon
        return float(result["metrics"]["accuracy"])


DIGITS = Measured(
    "goals", "digits, epsilon 1, run 0", 0.9664, 0.0059, 20, 1.0, {"engine": "bookkeeping", "noise": "fast"}
)
NETWORK = Measured(
    "dropout-table-1-digits",
    "DP-SGD, epsilon 10, seed 0",
    0.8546,
    0.0065,
    12,
    10.0,
    {"steps": 200, "rate": 0.1, "model": {"hidden": [100]}, "optimizer": {"lr": 0.03}, "evaluate_every": 200},
)
CANCER = Measured("goals", "Cancer, rho 0.4, split 0", 0.9726, 0.0040, 40, 3.8506, {})


@pytest.mark.parametrize("measured", [DIGITS, NETWORK, CANCER], ids=lambda one: one.cell)
def test_a_recipe_is_as_accurate_as_it_was(measured: Measured) -> None:
    if measured is CANCER and not (Path(os.environ.get("DISCREET_DATA", "")) / "cancer").is_dir():
        pytest.skip("the Cancer data are not here (DISCREET_DATA)")
    low, high = measured.band
    assert low <= measured.accuracy() <= high


def test_the_band_is_narrow_enough_to_see_that_noise_is_wrong() -> None:
    """Ten times the noise that the recipe has, about, at which it was seen to be right about every second digit."""
    assert DIGITS.accuracy({"epsilon": 0.1}) < DIGITS.band[0]
