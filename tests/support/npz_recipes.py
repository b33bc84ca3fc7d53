"""A recipe on 30 rows in an .npz file, written where one is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from discreet.cli.app import run
from discreet.ledger import Budget, Ledger

FAST = ["--set", "steps=3", "--set", "evaluate_every=3"]


RECIPE: dict[str, Any] = {
    "data": "npz",
    "model": {"name": "linear", "inputs": 4, "outputs": 3},
    "optimizer": {"name": "sgd", "lr": 0.1},
    "population": 30,
    "rate": 0.5,
    "steps": 3,
    "clip_norm": 1.0,
    "epsilon": 3.0,
    "delta": 1e-4,
}


def arrays(**changes: Any) -> dict[str, Any]:
    generator = np.random.Generator(np.random.PCG64(0))
    x, y = generator.normal(size=(30, 4)), np.arange(30) % 3
    return {"x_train": x, "y_train": y, "x_test": x[:6], "y_test": y[:6]} | changes


def with_row(row: int, value: float) -> np.ndarray:
    x = arrays()["x_train"]
    x[row, 2] = value
    return x


def write(recipe: dict[str, Any] | None = None, **changes: Any) -> list[str]:
    """Write mine.yaml and mine.npz; the arguments that train on them."""
    Path("mine.yaml").write_text(yaml.safe_dump(RECIPE | (recipe or {})))
    np.savez("mine.npz", **{name: array for name, array in arrays(**changes).items() if array is not None})
    return ["train", "mine.yaml", "--data", "mine.npz"]


def refused(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one line on standard error that says what and where, and nothing charged."""
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("discreet: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert not list(Path().rglob("ledger.sqlite*"))
    assert not list(Path().rglob("certificate.json"))
    assert not list(Path().rglob("key"))


def budget(epsilon: float, delta: float = 1e-3) -> None:
    ledger = Ledger("shared.sqlite")
    ledger.set_budget("patients", Budget(epsilon, delta))
    ledger.close()


SHARED = ["--ledger", "shared.sqlite", "--dataset-id", "patients"]


def as_is() -> None:
    write()


def assert_one_line_on_engine_and_noise(err: str) -> None:
    line = (
        r"discreet: engine \w+: within \S+ of the clip norm from reference, .*; noise \w+: \d+ values have the scale .*"
    )
    assert re.fullmatch(line + "\n", err)
