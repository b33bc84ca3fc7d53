"""The figures of docs/methods/correlated-noise.md against matrices written out."""

import importlib.util
import itertools
import math
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("correlated_noise", ROOT / "benchmarks" / "correlated_noise.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def strategy(steps: int, back: float) -> np.ndarray:
    """C as the inverse of what the noise is multiplied by."""
    return np.linalg.inv(np.eye(steps) - back * np.eye(steps, k=-1))


@pytest.mark.parametrize("back", [0.0, 0.3, 0.9])
def test_sensitivity_in_the_same_order(script: ModuleType, back: float) -> None:
    """Over all batches, with contributions of either sign: only the worst counts."""
    batches, epochs = 4, 3
    columns = strategy(12, back)
    worst = max(
        float(np.linalg.norm(sum(sign * columns[:, first + batches * e] for e, sign in enumerate((1, *signs)))))
        for first in range(batches)
        for signs in itertools.product((-1, 1), repeat=epochs - 1)
    )
    assert script.fixed_order(batches, epochs, back) == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize("back", [0.0, 0.3, 0.9])
def test_sensitivity_when_reshuffled_is_covered(script: ModuleType, back: float) -> None:
    """Every pattern of one batch an epoch; the bound leaves out that the run ends, which costs nothing far from it."""
    batches, epochs, room = 4, 3, 200
    columns = strategy(batches * epochs + room, back)
    worst = max(
        float(np.linalg.norm(sum(columns[:, place + batches * e] for e, place in enumerate(places))))
        for places in itertools.product(range(batches), repeat=epochs)
    )
    found = script.reshuffled(batches, epochs, back)
    assert worst * (1 - 1e-12) <= found <= worst * (1 + 1e-9)


def test_noise_of_prefix_sums(script: ModuleType) -> None:
    for steps, back in ((1, 0.5), (7, 0.0), (30, 0.8)):
        sums = np.tril(np.ones((steps, steps))) @ np.linalg.inv(strategy(steps, back))
        assert script.prefix_rmse(steps, back) == pytest.approx(math.sqrt(np.mean((sums**2).sum(1))), rel=1e-12)
        assert script.last_noise(steps, back) == pytest.approx(np.linalg.norm(sums[-1]), rel=1e-12)


def test_with_full_batches_no_correlation_beats_independent_noise_in_the_end(script: ModuleType) -> None:
    """Cauchy and Schwarz: |C 1| |C^-T 1| >= 1^T C^-1 C 1 = T, what independent noise has. Also for random C."""
    generator = np.random.default_rng(0)
    steps = 12
    for back in (0.0, 0.2, 0.7, 0.95):
        assert script.fixed_order(1, steps, back) * script.last_noise(steps, back) >= steps * (1 - 1e-12)
    for _ in range(200):
        c = np.tril(generator.normal(size=(steps, steps))) + 3 * np.eye(steps)
        ones = np.ones(steps)
        assert np.linalg.norm(c @ ones) * np.linalg.norm(np.linalg.inv(c).T @ ones) >= steps * (1 - 1e-9)


def test_the_page_has_the_figures(script: ModuleType) -> None:
    page = (ROOT / "docs" / "methods" / "correlated-noise.md").read_text()
    for name, (batches, epochs) in script.CASES.items():
        same, anew = script.gain(batches, epochs), script.gain(batches, epochs, script.reshuffled)
        row = f"| {name} | {same[0]:.3f} | {same[1]:.2f} | {anew[0]:.3f} | {anew[1]:.2f} |"
        assert row in page
    batches, epochs = script.CASES["10 epochs of 100"]
    ratio = script.gain(batches, epochs, script.reshuffled)[1]
    cells = re.search(r"\| 10 epochs of 100, reshuffled \|(.*)\|", page)
    assert cells is not None
    shown = [float(cell) for cell in cells.group(1).split("|")]
    for epsilon, value in zip(script.EPSILONS, shown, strict=True):
        if epsilon in (1.0, 8.0):
            assert script.over_poisson(batches, epochs, epsilon, ratio) == pytest.approx(value, abs=0.0051)
