"""A warning where random rows have gradients much shorter than the clip norm: noise would drown them."""

import logging
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.nn.functional as F
from problems import tiny_plan, tiny_training
from torch import Tensor

from discreet.clipping import Clip
from discreet.training.preflight.tried_clips import Lengths, shortfall

SAID = "times shorter than the clip norm"

FOLLOW = {
    "adaptive": {"kind": "adaptive", "initial": 1.0, "bit_multiplier": 5.0},
    "automatic": {"kind": "automatic", "norm": 1.0},
}


def divided_by(number: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda output, target: F.cross_entropy(output, target, reduction="sum") / number


@pytest.mark.parametrize(("number", "warned"), [(1.0, False), (1000.0, True)])
@pytest.mark.parametrize("engine", ["auto", "exact"])
def test_a_loss_that_divides_by_the_batch_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, engine: str, number: float, warned: bool
) -> None:
    with caplog.at_level(logging.WARNING, "discreet"):
        tiny_training(tmp_path / "run", criterion=divided_by(number), engine=engine)
    said = [record.getMessage() for record in caplog.records if SAID in record.getMessage()]
    assert len(said) == warned
    assert not any("\n" in one for one in said)


@pytest.mark.parametrize("kind", FOLLOW)
def test_of_clipping_that_follows_lengths_it_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    with caplog.at_level(logging.WARNING, "discreet"):
        plan = tiny_plan(clip_norm=None, clipping=FOLLOW[kind])
        tiny_training(tmp_path / "run", plan=plan, criterion=divided_by(1000.0))
    assert SAID not in caplog.text


def test_of_several_clip_norms_the_smallest_counts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plan = tiny_plan(clip_norm=[(1.0, 2), (0.001, 2)], steps=4)
    with caplog.at_level(logging.WARNING, "discreet"):
        tiny_training(tmp_path / "run", plan=plan, criterion=divided_by(1000.0))
    assert SAID not in caplog.text


def test_the_longest_gradient_counts() -> None:
    def found(clip: Clip, *norms: float) -> float:
        return shortfall(clip, [Lengths({"weight": norm**2}) for norm in norms])

    clip = Clip(2.0, 2.0**-30)
    assert found(clip, 0.01, 0.02, 0.0) == 100
    assert found(clip, 0.01, 3.0) == found(clip, 0.0, 0.0) == found(clip, math.nan) == 1
    assert found(Clip(2.0, 2.0**-30, gamma=0.01), 0.01) == 1
