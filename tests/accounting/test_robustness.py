"""A sample of benchmarks/robustness.py: random plans, their neighbours, other theories and an attack."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def load() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "robustness.py"
    spec = importlib.util.spec_from_file_location("robustness", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["robustness"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


ROBUSTNESS = load()
SAMPLE = [number for number in range(100) if len(ROBUSTNESS.plan(number).parts) <= 8][:40]


@pytest.mark.parametrize("number", SAMPLE)
def test_random_plans_are_bounded_and_do_not_contradict_their_neighbours(number: int) -> None:
    found, wrong = ROBUSTNESS.violations(ROBUSTNESS.plan(number), f"neighbours {number}")
    assert wrong == []
    assert found["outcome"] == "bound"
    assert found.get("longest", 0) <= 2**22


def test_a_wrong_accountant_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Understating epsilon by a tenth is seen in half of the plans, without any reference value."""
    honest = ROBUSTNESS.spend

    def understated(plan: object, method: object = ROBUSTNESS.Method.PLD) -> tuple[str, float, float]:
        outcome, lower, upper = honest(plan, method)
        return outcome, 0.9 * lower, 0.9 * upper

    monkeypatch.setattr(ROBUSTNESS, "spend", understated)
    caught = sum(bool(ROBUSTNESS.violations(ROBUSTNESS.plan(number), "x")[1]) for number in SAMPLE[:12])
    assert caught >= 5
