"""Trained weights to which no gradient comes are warned of before a run, as they would get noise and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from problems import CLASSES, tiny_training
from searches import tuning
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from discreet import Setup

FEATURES = 4
WARNED = "no gradient comes to {} from any of 12 random rows"


class Routed(nn.Module):
    """Sends each row through one of two layers; a third is never used."""

    def __init__(self, forward: Callable[[Routed, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.idle = (nn.Linear(FEATURES, CLASSES) for _ in range(3))
        self.way = forward

    def forward(self, rows: Tensor) -> Tensor:
        return self.way(self, rows)


def either(model: Routed, rows: Tensor) -> Tensor:
    return torch.cat([(model.first if row.sum() < FEATURES / 2 else model.second)(row[None]) for row in rows])


def behind_a_checkpoint(model: Routed, rows: Tensor) -> Tensor:
    return model.second(torch.relu(checkpoint(model.first, rows, use_reentrant=True)) @ torch.ones(CLASSES, FEATURES))


def without_a_graph(model: Routed, rows: Tensor) -> Tensor:
    return model.first(rows) + model.second(rows).detach()


@pytest.mark.parametrize(
    ("forward", "named"),
    [
        pytest.param(either, "idle.weight, idle.bias", id="a layer that is not used"),
        pytest.param(without_a_graph, "second.weight, second.bias, idle.weight and 1 more", id="a detached layer"),
        pytest.param(
            behind_a_checkpoint,
            "first.weight, first.bias, idle.weight and 1 more",
            id="a reentrant checkpoint of rows, which need no gradient",
            marks=pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad"),
        ),
    ],
)
def test_unused_weights_are_warned_of(
    forward: Callable[[Routed, Tensor], Tensor], named: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "discreet"):
        tiny_training(tmp_path, model=Routed(forward), criterion=F.cross_entropy, engine="reference")
    assert WARNED.format(named) in caplog.text


def test_frozen_ones_are_not_and_one_row_that_uses_a_layer_is_enough(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Routed(either)
    model.idle.requires_grad_(False)
    with caplog.at_level(logging.WARNING, "discreet"):
        tiny_training(tmp_path, model=model, criterion=F.cross_entropy, engine="reference")
    assert "no gradient comes" not in caplog.text


def test_a_search_warns_once_of_what_is_so_in_several_candidates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ways = {0.001: either, 1.0: without_a_graph}

    def made(settings: Mapping[str, Any]) -> Setup:
        model = Routed(ways[settings["optimizer.lr"]])
        return Setup(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))

    with caplog.at_level(logging.WARNING, "discreet"):
        search = tuning(tmp_path, made, engine="reference")
    candidates = search.plan.search.candidates  # type: ignore[union-attr]
    assert sorted({one["optimizer.lr"] for one in candidates}) == sorted(ways)
    assert len(candidates) > len(ways)
    warned = [line for line in caplog.messages if line.startswith("no gradient comes")]
    named = ("idle.weight, idle.bias", "second.weight, second.bias, idle.weight and 1 more")
    assert [line.split(" from any")[0] for line in sorted(warned)] == [f"no gradient comes to {one}" for one in named]
    logging.getLogger("discreet").warning("again")
    logging.getLogger("discreet").warning("again")
    assert caplog.messages[-2:] == ["again"] * 2
