"""No run begins with noise that nobody has chosen."""

from pathlib import Path
from typing import Any

import pytest
from problems import linear, tiny_training

from discreet import Plan
from discreet.core.errors import InputError
from discreet.core.events import Gaussian
from discreet.training import RunOptions, answered_first


def plan(**changes: Any) -> Plan:
    return Plan.poisson(**{"population": 24, "batch": 12, "steps": 2, "clip_norm": 1.0, "delta": 1e-5} | changes)


def test_a_plan_whose_noise_was_left_out_has_a_price_and_begins_no_run(tmp_path: Path) -> None:
    left_out = plan()
    assert left_out.guarantee().epsilon == plan(noise_multiplier=1.0).guarantee().epsilon
    with pytest.raises(InputError, match="nobody has chosen the noise of this plan; meet a budget by plan"):
        tiny_training(tmp_path, plan=left_out)
    assert not (tmp_path / "run").exists()


def test_a_plan_says_that_nobody_has_chosen_its_noise() -> None:
    assert "noise multiplier: 1, until you choose it: noise_multiplier=..., or calibrate(epsilon=...)\n" in str(plan())
    assert "until you choose it" not in str(plan(noise_multiplier=1.0)) + str(plan().calibrate(3))


def test_nor_are_its_queries_answered(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="nobody has chosen the noise of this plan"),
        answered_first(plan(before=[Gaussian(3.0)]), linear(), RunOptions(tmp_path / "run")),
    ):
        pass
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "chosen", [plan(noise_multiplier=1.0), plan(noise_multiplier=[(1.0, 2)]), plan().calibrate(3), plan().scaled(2.0)]
)
def test_any_choice_will_do(tmp_path: Path, chosen: Plan) -> None:
    assert tiny_training(tmp_path, plan=chosen).plan.noise == chosen.noise
