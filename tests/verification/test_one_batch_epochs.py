"""Shuffled epochs of one batch, the whole data: their event holds that batch alone, and no composition of batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from adaptive_runs import adaptive
from forging import edit, put
from problems import blobs, certified_run

from discreet import publish, verify
from discreet.plan import AdaptivePlan, Metric, Plan, ShuffleSampling
from discreet.verification.standalone import verify as reviewer

pytestmark = pytest.mark.usefixtures("recomputed_once")

EPOCH = ShuffleSampling(batch=24)


def fixed(**changes: Any) -> Plan:
    given = {"population": 24, "steps": 3, "delta": 1e-5, "clip_norm": 1.0, "noise_multiplier": [(5.0, 2), (6.0, 1)]}
    return Plan.make(EPOCH, adjacency="zero_out", **(given | changes))


def published(folder: Path, plan: Plan | AdaptivePlan) -> Path:
    publish(certified_run(folder, plan=plan, public_validation=blobs(9, seed=2)), folder / "out")
    return folder / "out"


@pytest.mark.parametrize("changes", [{}, {"metrics": [Metric(noise=9.0, every=1)]}, {"odometer": "renyi"}])
def test_a_fixed_plan_is_accepted(tmp_path: Path, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    out = published(tmp_path, fixed(**changes))
    assert verify(out).accepted, verify(out).checks
    assert reviewer.main([str(out)]) == (1 if "odometer" in changes else 0)
    assert capsys.readouterr().out.startswith("NOT COVERED" if "odometer" in changes else "ACCEPTED")


def test_a_run_under_a_filter_is_accepted(tmp_path: Path) -> None:
    out = published(tmp_path, adaptive(sampling=EPOCH, adjacency="zero_out", most_steps=3))
    assert verify(out).accepted, verify(out).checks


def test_several_batches_are_no_such_epoch(tmp_path: Path) -> None:
    """The plan of a forger has smaller batches than the epochs that were charged."""
    out = published(tmp_path, adaptive(sampling=EPOCH, adjacency="zero_out", most_steps=3))
    edit(put("plan", "sampling", "batch", value=12))(out)
    assert "events" in [check.name for check in verify(out).checks if not check.passed]
