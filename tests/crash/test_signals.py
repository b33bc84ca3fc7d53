"""SIGTERM and Ctrl-C on `discreet train`: a checkpoint, the right exit code, and a run that goes on or is published."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from discreet.cli.app import run as discreet
from discreet.ledger import Ledger

STEPS = 600  # the signal has seconds to come in time, also on a busy machine


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    inputs, targets = np.random.Generator(np.random.PCG64(0)).normal(size=(30, 4)), np.arange(30) % 3
    np.savez(tmp_path / "data.npz", x_train=inputs, y_train=targets, x_test=inputs[:6], y_test=targets[:6])
    facts = {
        "data": "npz",
        "model": {"name": "linear", "inputs": 4, "outputs": 3},
        "optimizer": {"name": "sgd", "lr": 0.1},
        "population": 30,
        "rate": 0.5,
        "steps": STEPS,
        "clip_norm": 1.0,
        "epsilon": 8.0,
        "delta": 1e-4,
        "evaluate_every": STEPS,
    }
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(facts))
    return path


def interrupted(recipe: Path, number: signal.Signals) -> tuple[int, str]:
    """(exit code, standard error) of a training that gets the signal once its first checkpoint is there."""
    program = [sys.executable, "-c", "from discreet.cli import main; main()"]
    command = [*program, "train", str(recipe), "--data", "data.npz", "--out", "out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 60
    while not Path("out.run/checkpoint.json").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def test_ctrl_c_while_the_command_line_is_loaded_is_one_line() -> None:
    code = (
        "import sys\nclass Stop:\n    def find_spec(name, *_):\n        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop)\nfrom discreet.cli import main; main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "discreet: interrupted\n")


def charged() -> int:
    ledger = Ledger("out.run/ledger.sqlite")
    try:
        ledger.verify()
        return sum(entry.steps for entry in ledger.entries())
    finally:
        ledger.close()


def test_sigterm_stops_with_143_and_resume_goes_on_to_the_end(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = interrupted(recipe, signal.SIGTERM)
    assert code == 143, said
    assert said.count("\n") == 1
    assert said.startswith("discreet: stopped after step ")
    assert "--resume out.run" in said
    assert 0 < charged() < STEPS
    assert not Path("out").exists()

    assert discreet(["train", "--resume", "out.run"]) == 0, capsys.readouterr().err
    assert charged() == STEPS
    assert discreet(["verify", "out"]) == 0
    assert discreet(["ledger", "verify", "--ledger", "out.run/ledger.sqlite", "out"]) == 0
    assert discreet(["train", "--resume", "out.run"]) == 2  # it is published


def test_sigint_stops_with_130_and_finish_publishes_under_the_whole_guarantee(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = interrupted(recipe, signal.SIGINT)
    assert code == 130, said
    assert said.splitlines()[-1].startswith("discreet: stopped after step ")
    before = charged()
    assert 0 < before < STEPS

    assert discreet(["train", "--resume", "out.run", "--finish"]) == 0, capsys.readouterr().err
    assert charged() == before
    facts = json.loads(Path("out/certificate.json").read_text())
    assert facts["charged_steps"] == before
    assert sum(part["count"] for part in facts["events"]["of"]) == STEPS
    assert 0 < facts["claim"]["epsilon"] <= 8.0
    assert discreet(["verify", "out"]) == 0
    assert discreet(["ledger", "verify", "--ledger", "out.run/ledger.sqlite", "out"]) == 0
