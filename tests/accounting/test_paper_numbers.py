"""The exact figures of shared/papers/README.md.

Source of all: dp-accounting 0.6.0, pessimistic privacy-loss distributions at a grid of 5e-5, add/remove, Poisson
sampling, rounded to nearest; the README states that a correct upper bound lies between 0.02 % below and 0.3 % above.
"""

import pytest

from discreet.accounting.account import guarantee
from discreet.core.adjacency import Adjacency
from discreet.core.events import Compose, Event, Gaussian, Poisson, Repeat

MNIST = 256 / 60000

# name, rate, noise multiplier, steps, delta, exact epsilon
FIGURES = [
    ("Yu figure 2", 0.01, 6.0, 40_000, 1e-5, 1.28295),
    ("ADADP", 0.01, 0.9, 1800, 1e-5, 3.06360),
    ("GDP table 1, row 1", MNIST, 1.3, 3516, 1e-5, 0.86455),
    ("GDP table 1, row 2", MNIST, 1.1, 14062, 1e-5, 2.38162),
    ("GDP table 1, row 3", MNIST, 0.7, 10547, 1e-5, 5.63969),
    ("GDP table 1, row 4", MNIST, 0.6, 14531, 1e-5, 10.94948),
    ("GDP table 1, row 5", MNIST, 0.55, 15938, 1e-5, 15.71629),
    ("GDP table 1, row 6", MNIST, 0.5, 23438, 1e-5, 28.04603),
    ("GDP table 2, Adult", 256 / 29305, 0.55, 2061, 1e-5, 11.80731),
    ("GDP table 3, IMDb", 512 / 25000, 0.56, 439, 1e-5, 12.14071),
    ("GDP table 4, MovieLens", 1 / 80, 0.6, 1600, 1e-6, 12.74944),
    ("filters, fine-tuning", 512 / 50000, 1.0, 4900, 1e-6, 4.81025),
    ("DP dropout, multiplier 6.46", 0.01, 6.46, 20_000, 1e-4, 0.67167),
    ("DP dropout, multiplier 3.23", 0.01, 3.23, 20_000, 1e-4, 1.50509),
]


@pytest.mark.parametrize(
    ("rate", "noise", "steps", "delta", "exact"), [row[1:] for row in FIGURES], ids=[row[0] for row in FIGURES]
)
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT])
def test_exact_figures(rate: float, noise: float, steps: int, delta: float, exact: float, adjacency: Adjacency) -> None:
    found = guarantee(Repeat(Poisson(rate, Gaussian(noise)), steps), delta, adjacency)
    assert found.lower is not None
    assert exact * (1 - 0.0002) <= found.epsilon <= exact * 1.003
    assert found.lower <= exact + 5e-6  # half a unit of the last digit printed
    assert found.epsilon - found.lower <= max(0.005 * found.epsilon, 1e-4)
    assert found.method == "pld"


def test_two_queries_on_one_draw_are_one_event() -> None:
    """README, General 3: 6.03 in truth, 3.72 if charged apart (both printed to two decimals)."""
    one = guarantee(Repeat(Poisson(0.01, Compose((Gaussian(1.0), Gaussian(1.0)))), 2000), 1e-5)
    apart = Repeat(Compose((Poisson(0.01, Gaussian(1.0)), Poisson(0.01, Gaussian(1.0)))), 2000)
    assert round(one.epsilon, 2) == pytest.approx(6.03, abs=0.011)
    assert guarantee(apart, 1e-5).epsilon == pytest.approx(3.72, abs=0.011)


@pytest.mark.parametrize("event", [Repeat(Gaussian(6.0), 400), Repeat(Poisson(1.0, Gaussian(6.0)), 400)])
def test_four_hundred_gaussians_without_sampling(event: Event) -> None:
    """README, Yu et al. 1: sigma = 6, 400 epochs, delta = 1e-5 is 19.13 (two decimals)."""
    found = guarantee(event, 1e-5)
    assert found.method == "gaussian"
    assert found.lower is not None
    assert round(found.epsilon, 2) == 19.13
    assert 0 <= found.epsilon - found.lower < 1e-6
