"""Runs that start from weights of other runs, told apart from those of another process."""

from __future__ import annotations

import copy

import pytest
from torch import nn

from discreet.certificate import earlier_runs
from discreet.training import Trained


def names(trained: Trained) -> list[str]:
    """The runs that a result says it started from."""
    return [one.run for one in trained.warm_start]


def again(model: nn.Module) -> nn.Linear:
    """Another object with the weights of a linear layer, which came through a file or the like."""
    made = nn.Linear(4, 3)
    made.load_state_dict({name: tensor.clone() for name, tensor in copy.deepcopy(model.state_dict()).items()})
    return made


def in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what this process has seen of runs."""
    monkeypatch.setattr(earlier_runs, "_RELEASED", {})
