"""`discreet audit build FILE.py`: mistakes in a file of one's own are said with its line, and none is discreet's."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet.cli.app import run

WHOLE = """
from __future__ import annotations
from dataclasses import dataclass
import torch
import discreet
from beside_it import network

@dataclass
class Settings:
    rate: float = 0.1

def training(data=None):
    rows = (torch.randn(40, 4), torch.randint(2, (40,)))
    model = network()
    plan = discreet.Plan.poisson(
        population=40, batch=8, steps=4, clip_norm=1.0, delta=1e-3, noise_multiplier=1.0
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=Settings().rate)
    return discreet.Training(plan, model, torch.nn.CrossEntropyLoss(), optimizer, rows if data is None else data)
"""


@pytest.fixture(autouse=True)
def _imports(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("own", "whole", "beside_it"):
        sys.modules.pop(name, None)


MISTAKES = {
    "def training():\n    return undefined_name": "own.py, line 2: NameError; run it in Python to see what it says",
    "def training():\n    raise ValueError('a private row')": "own.py, line 2: ValueError; run it in Python",
    "x = 1\ndef training(:\n    pass": "own.py, line 2: SyntaxError",
    "import no_such_package\ndef training(): pass": "own.py, line 1: there is no module no_such_package; install it",
    "def training(rows):\n    return rows": "training() of own.py is called without arguments first; give 'rows' a "
    "default, such as rows=None",
    "training = 3": "own.py has no function training() that returns a discreet.Training",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_an_own_file_names_its_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text(text)
    assert run(["audit", "build", "own.py"]) == 2
    said = capsys.readouterr().err
    assert MISTAKES[text] in said
    assert "private row" not in said


def test_a_script_without_the_function_is_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    """It may train, and charge, as it is loaded."""
    Path("script.py").write_text("open('ran', 'w').close()\n")
    assert run(["audit", "build", "script.py"]) == 2
    assert "script.py has no function training()" in capsys.readouterr().err
    assert not Path("ran").exists()


def test_a_file_imports_what_lies_beside_it_as_a_script_does(capsys: pytest.CaptureFixture[str]) -> None:
    Path("project").mkdir()
    Path("project/beside_it.py").write_text("import torch\ndef network():\n    return torch.nn.Linear(4, 2)\n")
    Path("project/whole.py").write_text(WHOLE)
    assert run(["audit", "build", "project/whole.py", "--effort", "0.1"]) == 0
    assert "nothing was found" in capsys.readouterr().out
