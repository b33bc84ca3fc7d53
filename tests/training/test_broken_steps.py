"""What was charged with a step that was broken off pays for nothing else."""

from pathlib import Path
from typing import Any

import pytest
from problems import tiny_plan, tiny_training
from sessions import take
from torch import Tensor

from discreet.core.events import Event, Gaussian
from discreet.core.release import ClippedSum, Receipt, Release
from discreet.plan import Metric
from discreet.randomness import RoundedSampler, Stream
from discreet.training import step as step_module

STEPS = Gaussian(8.0)


def broken_off(_chunk: tuple[Tensor, Tensor]) -> None:
    raise KeyError("a bug of the user")


@pytest.mark.parametrize("broken", [2, 4, 6])
def test_a_metric_never_pays_for_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: int) -> None:
    """The metric is of rows that are held out, so its price, at a 13th of the noise, is not that of rows to train on.
    It was due after the broken step: the next step has to have the noise of a step."""
    paid: list[Event] = []
    honest = step_module.gaussian_release

    def noted(total: ClippedSum, receipt: Receipt, stream: Stream, noise: RoundedSampler, *_: Any) -> Release:
        paid.append(receipt.release)
        return honest(total, receipt, stream, noise)

    monkeypatch.setattr(step_module, "gaussian_release", noted)
    cheap = Metric(noise=0.6, every=2, rows="holdout")
    plan = tiny_plan(steps=6, batch=8, block=10, noise_multiplier=8.0, holdout=0.3, metrics=[cheap])
    training, taken = tiny_training(tmp_path, plan=plan, ids=range(24), engine="reference"), 0
    with training.session() as session:
        while not session.finished:
            taken += 1
            if taken == broken:
                with pytest.raises(KeyError):
                    take(session, before_add=broken_off)
            else:
                take(session)
        assert session.position == plan.charges
    assert taken == 6
    assert paid == [STEPS] * 5
    assert len(training.watch.bought) == 2
