"""The figures of docs/methods/correlated-noise.md are those of the script."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from discreet.accounting.answers.bands import best_bands

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("correlated_noise", ROOT / "benchmarks" / "correlated_noise.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("case", ["1 pass of 100 batches", "20 passes of 4"])
def test_the_page_has_the_figures(script: ModuleType, case: str) -> None:
    """The rows that are quick to compute."""
    page = (ROOT / "docs" / "methods" / "correlated-noise.md").read_text()
    rate, steps = script.CASES[case]
    cells = [script.cell(best_bands(rate, steps, epsilon, script.DELTA)) for epsilon in script.EPSILONS]
    assert f"| {case} | {' | '.join(cells)} |" in page
