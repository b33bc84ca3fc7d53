"""The plugin of pytest: marked tests are audited; it loads no torch before one runs."""

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

PLUGIN = "discreet.testing.pytest_plugin"

TESTS = """
import pytest
import torch
from dp_sgd_by_hand import WRONG, make, rows
from discreet import Plan, Training

CLAIM = dict(rows=rows(), sensitivity=1 / 8, noise=1.2 / 8, effort=0.25)

@pytest.mark.private
def test_returns_nothing():
    pass

@pytest.mark.private(effort=0.1)
def test_my_training(tmp_path):
    plan = Plan.poisson(population=50, batch=10, steps=20, delta=1e-5, clip_norm=1.0, noise_multiplier=1.0)
    model = torch.nn.Linear(6, 3)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.randn(50, 6), torch.randint(3, (50,))
    return Training(plan, model, torch.nn.CrossEntropyLoss(), sgd, rows, run=tmp_path / "run", engine="reference")

@pytest.mark.private(**CLAIM)
def test_my_step():
    return make()

@pytest.mark.private(**CLAIM)
def test_my_wrong_step():
    return WRONG["no clipping"][0]
"""


def test_marked_tests_are_audited(tmp_path: Path) -> None:
    by_hand = Path(__file__).parents[1] / "support" / "dp_sgd_by_hand.py"
    (tmp_path / by_hand.name).write_text(by_hand.read_text())
    (tmp_path / "test_mine.py").write_text(TESTS)
    found = ran(tmp_path, "-rA")
    assert "PASSED test_mine.py::test_my_step" in found
    assert "PASSED test_mine.py::test_my_training" in found
    assert "FAILED test_mine.py::test_my_wrong_step" in found
    assert "not private as claimed" in found
    assert "returns nothing; return a Training" in found
    assert "2 failed, 2 passed" in found


def test_no_torch_at_the_start_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text("import sys\n\ndef test_light():\n    assert 'torch' not in sys.modules\n")
    assert "1 passed" in ran(tmp_path, "--strict-markers")


def ran(folder: Path, *options: str) -> str:
    installed = any(one.value == PLUGIN for one in entry_points(group="pytest11"))  # pytest loads it by itself then
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *([] if installed else ["-p", PLUGIN])]
    done = subprocess.run([*command, *options, "--rootdir=."], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
