"""Correlated noise in a run: units keep their turns; plans and verifiers refuse what no theorem covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from problems import Recorded, blobs, tiny_training

from discreet.core.errors import InputError
from discreet.plan import CyclicPoissonSampling, Metric, Plan
from discreet.randomness import TestStream
from discreet.verification.checks import plan_events
from discreet.verification.standalone import verify as reviewer

SAMPLING = CyclicPoissonSampling(rate=0.8, coefficients=(64, 40, 33, 27))


def turned(**changes: Any) -> Plan:
    """Twelve rounds of four steps."""
    settings: dict[str, Any] = {"population": 24, "steps": 48, "delta": 1e-5, "clip_norm": 1.0, "noise_multiplier": 2.0}
    return Plan.make(SAMPLING, **(settings | changes))


def who_took_part(folder: Path, seed: int) -> list[set[int]]:
    """The rows that each step of a run read."""
    data = Recorded()
    training = tiny_training(folder, plan=turned(), data=data, stream=TestStream(seed))
    data.on_read = lambda _: None
    taken = []
    with training.session() as session:
        while session.ready():
            data.reads.clear()
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(training.criterion, chunk)
            taken.append(set(data.reads))
    return taken


def test_a_unit_keeps_its_turn_through_the_run(tmp_path: Path) -> None:
    """Two steps of a unit lie whole rounds apart, which the theorem needs; other runs deal otherwise."""
    dealt = []
    for seed in (1, 2):
        taken = who_took_part(tmp_path / str(seed), seed)
        turns = {unit: {place % 4 for place, units in enumerate(taken) if unit in units} for unit in range(24)}
        assert all(len(places) <= 1 for places in turns.values())
        assert sum(map(len, taken)) > 24 * 12 * 0.6  # 0.8 expected
        dealt.append(turns)
    assert dealt[0] != dealt[1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"noise_multiplier": [(2.0, 24), (3.0, 24)]}, "one multiplier"),
        ({"clip_norm": [(1.0, 24), (0.5, 24)]}, "one clip"),
        ({"clip_norm": None, "clipping": {"kind": "adaptive", "initial": 1.0, "bit_multiplier": 6.0}}, "one clip"),
        ({"clip_norm": None, "clipping": {"kind": "ellipsoid"}}, "one clip"),
        ({"metrics": [Metric(noise=9.0, every=4)]}, "holdout"),
        ({"odometer": "renyi"}, "odometer"),
        ({"steps": 50}, "multiple of the 4"),
        ({"adjacency": "replace_one"}, "replace_one"),
    ],
)
def test_a_plan_that_no_theorem_covers_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        turned(**changes).guarantee()


def test_metrics_of_rows_that_are_held_out_are_bought(tmp_path: Path) -> None:
    plan = turned(metrics=[Metric(noise=9.0, every=4, rows="holdout")], holdout=0.3, adjacency="zero_out")
    trained = tiny_training(tmp_path, plan=plan, public_test=blobs(9, seed=1)).run()
    assert len(trained.bought) == 12


@pytest.mark.parametrize(
    "forged",
    [
        {"noise": [{"multiplier": 2.0, "steps": 24}, {"multiplier": 9.0, "steps": 24}]},
        {"clipping": {"kind": "scheduled", "phases": [{"norm": 2.0, "steps": 24}, {"norm": 0.5, "steps": 24}]}},
        {"clipping": {"kind": "ellipsoid", "norm": 1.0, "scales": "sha256:0"}},
        {"metrics": [Metric(noise=9.0, every=4).model_dump(mode="json")]},
        {"noise": [{"multiplier": 2.0, "steps": 50}]},
    ],
)
def test_both_verifiers_refuse_such_a_plan(forged: dict[str, Any]) -> None:
    honest = turned().model_dump(mode="json")
    assert plan_events.planned(honest)
    assert reviewer.planned(honest)
    with pytest.raises(InputError):
        plan_events.planned(honest | forged)
    with pytest.raises(reviewer.Stop):
        reviewer.planned(honest | forged)


def test_the_reviewer_of_the_library_refuses_an_odometer() -> None:
    honest = turned().model_dump(mode="json")
    with pytest.raises(InputError, match="odometer"):
        plan_events.planned(honest | {"odometer": {"kind": "renyi"}})


def test_one_coefficient_is_no_correlation() -> None:
    with pytest.raises(InputError, match="bands must be at least 2"):
        CyclicPoissonSampling.of_bands(0.01, 1, 100)
