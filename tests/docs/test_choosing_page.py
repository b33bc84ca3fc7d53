"""The page that sets this library beside others: what it says of those that are installed for tests is so.

The versions are part of the page. When a newer one is installed here, the page is to be read again.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import math
import re
from importlib.metadata import version
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting import pld

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "choosing.md").read_text()

needs_opacus = pytest.mark.skipif(importlib.util.find_spec("opacus") is None, reason="opacus is in the extra dev")


@pytest.mark.parametrize(("name", "said"), [("opacus", "Opacus"), ("dp-accounting", "dp-accounting")])
def test_the_version_that_was_read_is_the_one_here(name: str, said: str) -> None:
    pytest.importorskip(name.replace("-", "_"))
    assert f"{said} {version(name)}" in " ".join(PAGE.split())


def test_every_row_has_an_answer_for_everyone() -> None:
    tables = [line for line in PAGE.splitlines() if line.startswith("| ") and line.count("|") > 4]
    assert len(tables) > 20
    for line in tables:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 8, line
        assert all(cells[1:]), line


@needs_opacus
@pytest.mark.filterwarnings("ignore")
def test_of_opacus() -> None:
    registry = importlib.import_module("opacus.accountants.registry")
    assert set(registry._ACCOUNTANTS) == {"rdp", "gdp", "prv"}
    for module, name in (
        ("opacus.optimizers.fsdpoptimizer_fast_gradient_clipping", "FSDPOptimizerFastGradientClipping"),
        ("opacus.optimizers.adaclipoptimizer", "AdaClipDPOptimizer"),
        ("opacus.optimizers.perlayeroptimizer", "DPPerLayerOptimizer"),
        ("opacus.schedulers", "StepNoise"),
        ("opacus.grad_sample", "GradSampleModuleExpandedWeights"),
    ):
        assert hasattr(importlib.import_module(module), name)
    assert importlib.util.find_spec("opacus.grad_sample.grad_sample_module_fast_gradient_clipping_tp") is not None


def test_of_dp_accounting() -> None:
    for name in (
        "MixtureOfGaussians",
        "DiscreteLaplace",
        "RandomizedResponse",
        "RepeatAndSelect",
        "SampledWithReplacement",
    ):
        assert hasattr(dp_accounting.dp_event, f"{name}DpEvent")
    bounds = [
        pld.privacy_loss_distribution.from_gaussian_mechanism(
            1.0, sampling_prob=0.1, pessimistic_estimate=above, value_discretization_interval=1e-2
        ).get_epsilon_for_delta(1e-5)
        for above in (False, True)
    ]
    assert bounds[0] < bounds[1]


def test_the_guess_of_the_officers_table() -> None:
    """With even chances before, the best guess under pure epsilon is right with probability e^eps / (1 + e^eps)
    (Kairouz, Oh, Viswanath 2015, Theorem 2, randomized response); the table rounds up."""
    page = (DOCS / "guides" / "data-protection-officer.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) times", page, re.MULTILINE)
    assert [float(epsilon) for epsilon, _ in rows] == [0.1, 1, 3, 8]
    for epsilon, shown in rows:
        right = 100 / (1 + math.exp(-float(epsilon)))
        assert right <= float(shown) <= right + 1


def test_the_statements_to_a_first_model_are_counted() -> None:
    page = (DOCS / "migrating-from-opacus.md").read_text()
    blocks = re.findall(r"^```(?:py|python)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    opacus, here = (sum(isinstance(one, ast.stmt) for one in ast.walk(ast.parse(block))) for block in blocks[1:3])
    assert "PrivacyEngine" in blocks[1]
    assert f"{here} here, checkable folder\nincluded, and {opacus} with Opacus" in PAGE
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    counted = [sum(isinstance(one, ast.stmt) for one in ast.walk(ast.parse(block))) for block in blocks]
    assert f"both take {counted[0]}." in PAGE
    assert counted[0] == counted[1]
    assert f"JAX Privacy 2.0.0 takes {counted[2]} for the example" in PAGE
    made: dict[str, object] = {}
    exec(blocks[1], made)
    assert (made["model"].predict(made["rows"]) == made["targets"]).mean() > 0.6  # type: ignore[attr-defined]
