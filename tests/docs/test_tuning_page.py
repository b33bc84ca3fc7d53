"""The figures on the page of searches are right (rounded up)."""

import re
from pathlib import Path

import pytest

from discreet import Gaussian, Poisson, Repeat, calibrate_noise, guarantee
from discreet.core.events import Event, Selection
from discreet.plan.tuning.random_stopping import law

PAGE = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
COUNTS = (2, 5, 8, 20, 50)


def figures(row: str) -> list[str]:
    found = re.search(row + r"[^|]*\|(.*)\|", PAGE)
    assert found is not None
    return [cell.strip() for cell in found.group(1).split("|")]


@pytest.fixture(scope="module")
def run() -> Event:
    noise, _ = calibrate_noise(lambda s: Repeat(Poisson(0.05, Gaussian(s)), 300), 1.0, 1e-5)
    return Repeat(Poisson(0.05, Gaussian(noise)), 300)


@pytest.mark.parametrize("name", ["geometric", "logarithmic", "poisson"])
def test_the_prices_of_searches(run: Event, name: str) -> None:
    for count, shown in zip(COUNTS, figures(rf"\| `{name}`"), strict=True):
        assert 0 <= float(shown) - guarantee(Selection(run, law(name, count)), 1e-5).epsilon < 0.0101


def test_the_prices_of_releasing_every_run(run: Event) -> None:
    shown = [cell for cell in figures(r"\| all released") if cell]
    for count, cell in zip(COUNTS, shown, strict=False):
        assert 0 <= float(cell) - guarantee(Repeat(run, count), 1e-5).epsilon < 0.0101
    assert len(shown) == 3
