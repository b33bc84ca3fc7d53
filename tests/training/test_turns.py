"""Correlated noise in a run: units keep their turns; plans and verifiers refuse what no theorem covers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from problems import Recorded, blobs, tiny_training
from torch import nn

from discreet.core.errors import InputError
from discreet.plan import CyclicPoissonSampling, Metric, Plan
from discreet.randomness import TestStream
from discreet.training.drawing import Draws
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
        {"odometer": {"kind": "renyi"}},
        {"sampling": {"kind": "cyclic_poisson", "rate": 0.8, "coefficients": [1, 2, 3, 4]}},
        {"sampling": {"kind": "cyclic_poisson", "rate": 0.8, "coefficients": [2**60, 1, 1, 1]}},
        {"sampling": {"kind": "cyclic_poisson", "rate": 0.8, "coefficients": [64]}},
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


@pytest.mark.parametrize("coefficients", [(1, 2), (2**17, 1), (64,)])
def test_coefficients_that_no_run_can_carry_out_are_refused(coefficients: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"^CyclicPoissonSampling: "):
        CyclicPoissonSampling(rate=0.8, coefficients=coefficients)


def test_steps_are_not_opened_inside_each_other(tmp_path: Path) -> None:
    """Sums enter the chain when a step ends: in another order, turns of a unit would lie closer than a round."""
    training = tiny_training(tmp_path, plan=turned())
    with training.session() as session, session.step() as outer:
        outer.add_all(training.criterion)
        with pytest.raises(InputError, match="a step is open"), session.step():
            pass
    assert session.position == 1


def test_a_step_that_is_broken_off_before_it_draws_shifts_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between the charge and the draw: the batch of that step is left out, and the next has its own."""
    data, taken = Recorded(), dict[int, set[int]]()
    training = tiny_training(tmp_path, plan=turned(), data=data)
    data.on_read = lambda _: None
    whole, broken = Draws.law, {2, 8, 13}

    def law(draws: Draws, event: Any) -> Any:
        if session.position - 1 in broken:
            broken.discard(session.position - 1)
            raise KeyboardInterrupt
        return whole(draws, event)

    monkeypatch.setattr(Draws, "law", law)
    with training.session() as session:
        while session.ready():
            place = session.position
            data.reads.clear()
            try:
                with session.step() as step:
                    for chunk in step.chunks:
                        step.add(training.criterion, chunk)
                taken[place] = set(data.reads)
            except KeyboardInterrupt:
                continue
    assert len(taken) == 45
    turns = [{place % 4 for place, units in taken.items() if unit in units} for unit in range(24)]
    assert all(len(places) <= 1 for places in turns)


def test_a_sum_of_any_possible_size_fits_the_grid(tmp_path: Path) -> None:
    """The grid is as coarse as the noise, which is |m| times that of a single sum; what might not fit is refused before
    a charge, since a refusal in a step would tell about the rows. One coordinate, units of gradient 1."""
    rows = 2000
    data = torch.ones(rows, 1), torch.ones(rows)

    class Weight(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -self.weight * x.squeeze(-1)

    def run(coefficients: tuple[int, ...], noise: float) -> float:
        plan = Plan.make(
            CyclicPoissonSampling(rate=1.0, coefficients=coefficients),
            population=rows,
            steps=4,
            delta=1e-5,
            clip_norm=1.0,
            noise_multiplier=noise,
        )
        model = Weight()
        tiny_training(
            tmp_path / f"{noise}", plan=plan, model=model, data=data, engine="exact", criterion=nn.L1Loss()
        ).run(progress=False)
        return float(model.weight.detach())

    assert run((2**16, 2**16), 1.0) < -0.15  # half of the rows in each of four steps, rate 0.1
    with pytest.raises(InputError, match="too large for so little noise"):
        run((2**16, 2**16), 5e-4)


def test_one_coefficient_is_no_correlation() -> None:
    with pytest.raises(InputError, match="bands must be at least 2"):
        CyclicPoissonSampling.of_bands(0.01, 1, 100)
