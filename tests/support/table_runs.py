"""Runs of `discreet train` on a table of patients, and predictions for the public rows beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from discreet.cli.app import run

SCHEMA: dict[str, Any] = {
    "unit": "row",
    "population": 300,
    "columns": {
        "patient": {"type": "ignore"},
        "age": {"type": "number", "low": 0, "high": 100},
        "ward": {"type": "category", "categories": ["A", "B", "C"], "weights": {"A": 2}},
        "smoker": {"type": "boolean"},
        "ill": {"type": "boolean"},
        "stay": {"type": "number", "low": 0, "high": 20},
    },
}
FEW = ["--set", "steps=4", "--set", "rate=0.2", "--set", "engine=bookkeeping"]


def write(rows: int = 300, **changes: Any) -> list[str]:
    """patients.csv and public.csv, on which old people are ill; the arguments that train on them."""
    generator = np.random.Generator(np.random.PCG64(1))
    for name, count in (("patients", rows), ("public", 200)):
        age = generator.integers(20, 90, count)
        lines = [f"p{i // 3},{a},{'ABC'[i % 3]},{i % 2},{int(a > 55)},{a / 10:.1f}" for i, a in enumerate(age)]
        Path(f"{name}.csv").write_text("\n".join(["patient,age,ward,smoker,ill,stay", *lines]) + "\n")
    Path("s.yaml").write_text(yaml.safe_dump(SCHEMA | changes))
    return ["train", "patients.csv", "--schema", "s.yaml", "--epsilon", "8", "--delta", "1e-4", "--json"]


def trained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(arguments) == 0, capsys.readouterr().err
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert run(["verify", facts["folder"]]) == 0
    capsys.readouterr()
    return facts


def predicted(capsys: pytest.CaptureFixture[str], head: str = "ill,probability,p(false),p(true)") -> list[str]:
    """What the published folder says of the public rows."""
    assert run(["predict", "patients-private", "public.csv"]) == 0, capsys.readouterr().err
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == head
    return lines
