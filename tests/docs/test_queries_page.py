"""The figures on the page of private queries are right (rounded up)."""

import re
from pathlib import Path

import pytest

from discreet.accounting.account import guarantee
from discreet.core.events import Gaussian, Selection
from discreet.core.trials import NegativeBinomialTrials, PoissonTrials, Trials

PAGE = (Path(__file__).parents[2] / "docs" / "queries.md").read_text()


@pytest.mark.parametrize(
    ("row", "trials"),
    [
        (r"`shape=0, success=0.02` \| 12.6 \|", NegativeBinomialTrials(0, 0.02)),
        (r"`shape=1, success=0.1` \| 10 \|", NegativeBinomialTrials(1, 0.1)),
        (r"`PoissonTrials\(10\)` \| 10 \|", PoissonTrials(10)),
    ],
)
def test_the_prices_of_searches(row: str, trials: Trials) -> None:
    found = re.search(row + r" ([\d.]+) \|", PAGE)
    assert found is not None
    exact = guarantee(Selection(Gaussian(4.0), trials), 1e-6).epsilon
    assert 0 <= float(found.group(1)) - exact < 0.01
    assert 0 <= 1.07 - guarantee(Gaussian(4.0), 1e-6).epsilon < 0.01
    assert trials.mean <= float(row.split(r"\|")[1])
