"""`import discreet` and the accounting commands load nothing heavy."""

import json
import subprocess
import sys

import pytest

HEAVY = ["torch", "scipy.stats", "matplotlib", "sqlalchemy", "sklearn", "numba", "llvmlite"]
PLAN = ["--rate", "0.01", "--steps", "100", "--delta", "1e-5", "--json"]


@pytest.mark.parametrize(
    "code",
    [
        "import discreet",
        "import discreet.randomness, discreet.randomness.ziggurat",
        f"from discreet.cli.app import run; assert run(['epsilon', '--noise', '1', *{PLAN}]) == 0",
        f"from discreet.cli.app import run; assert run(['calibrate', '--epsilon', '1', *{PLAN}]) == 0",
        f"from discreet.cli.app import run; assert run(['compare', '--noise', '1', *{PLAN}]) == 0",
        "from discreet.cli.app import run; assert run(['epsilon', '--help']) == 0",
        "from discreet.cli.app import run; assert run(['reproduce', '--list']) == 0",
        "from discreet.data.tables import Schema, blocks, load_schema",
    ],
)
def test_nothing_heavy_is_loaded(code: str) -> None:
    script = f"{code}\nimport json, sys\nprint()\nprint(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_a_draft_of_a_schema_does_not_load_torch() -> None:
    code = "import sys; from discreet.data.tables.drafting.draft import draft; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_predictions_load_neither_training_nor_accounting() -> None:
    others = ["training", "clipping", "accounting", "queries", "ledger", "recipes.recipe"]
    code = "import sys, discreet.prediction, discreet.cli.show.predictions\n"
    code += f"sys.exit(str([one for one in {others} if f'discreet.{{one}}' in sys.modules] or '') or None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_model_of_tables_is_built_again_without_the_compiler() -> None:
    """As `discreet predict` builds it: a tenth of a small prediction was the import."""
    code = "import sys, torch; from discreet.recipes.models.models import MODELS\nwith torch.device('meta'):\n"
    code += "    MODELS['tabular'](kinds=[0, 3], outputs=2)\nsys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0


def test_the_library_does_not_load_pydantic() -> None:
    """The commands do: typer 0.29 imports it itself (typer/_adapters.py)."""
    code = "import sys, discreet, discreet.accounting.account; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
