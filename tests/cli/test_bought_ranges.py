"""Ranges of which nothing is declared, bought among all magnitudes: from a table to a verified folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from discreet.cli.app import run
from discreet.verification.standalone import verify as reviewer

SCHEMA = {
    "unit": "row",
    "population": 600,
    "target": "ill",
    "columns": {
        "year": {"type": "number", "buy": {"noise": 4}},
        "debt": {"type": "number", "buy": {"noise": 4}},
        "ill": {"type": "boolean"},
    },
}
FEW = ["--set", "steps=3", "--set", "engine=bookkeeping"]


def test_it_is_charged_covered_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    seed = np.random.Generator(np.random.PCG64(0))
    rows = zip(seed.integers(1960, 2020, 600), seed.normal(0, 3000, 600), strict=True)
    Path("t.csv").write_text("\n".join(["year,debt,ill", *(f"{y},{d:.2f},{int(d > 0)}" for y, d in rows)]) + "\n")
    Path("s.yaml").write_text(yaml.safe_dump(SCHEMA, sort_keys=False))
    assert run(["train", "t.csv", "--schema", "s.yaml", "--epsilon", "8", "--delta", "1e-4", *FEW, "--out", "out"]) == 0
    assert "buys the range of year, debt, for epsilon " in capsys.readouterr().err
    columns = json.loads(Path("out/model.json").read_text())["table"]["schema"]["columns"]
    assert (columns["year"]["low"], columns["year"]["high"]) == (1920, 2048)
    assert -20_000 < columns["debt"]["low"] < -3000
    assert 3000 < columns["debt"]["high"] < 20_000
    facts = json.loads(Path("out/certificate.json").read_text())
    noise = [event["noise_multiplier"] for event in facts["plan"]["before"]]
    assert noise == pytest.approx([4 / 0.7**0.5, 4 / 0.3**0.5] * 2)
    assert facts["claim"]["epsilon"] <= 8
    assert run(["verify", "out"]) == 0
    assert reviewer.main(["out"]) == 0
