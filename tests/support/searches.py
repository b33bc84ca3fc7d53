"""Tiny searches for settings, on blobs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from problems import WithPublicTensors, blobs, in_records, tiny_plan
from torch import nn

from discreet import Setup, Tuning
from discreet.core.trials import NegativeBinomialTrials
from discreet.plan import PartsSearch, Search
from discreet.training.tuning import tuning as module

GRID: dict[str, Any] = {"optimizer.lr": [0.001, 1.0], "clip_norm": [0.5, 1.0, 2.0]}
LAW = NegativeBinomialTrials(1.0, 0.25)
SCORE = "validation_accuracy"


def build(settings: Mapping[str, Any]) -> Setup:
    """A linear layer between public tensors, with the learning rate of the candidate."""
    model = WithPublicTensors()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return Setup(model, nn.CrossEntropyLoss(), torch.optim.SGD(trained, lr=settings["optimizer.lr"]))


KINDS = ("random_stopping", "parts")
ROWS = 160
PARTS_GRID: dict[str, Any] = {"optimizer.lr": [0.001, 1.0], "clip_norm": [0.5, 1.0]}


def tuning_of(kind: str, folder: Path, make: Callable[[Mapping[str, Any]], Setup] = build, **changes: Any) -> Tuning:
    """A search of either kind; what is changed must go with it."""
    return (tuning if kind == "random_stopping" else parts_tuning)(folder, make, **changes)


def parts_tuning(folder: Path, make: Callable[[Mapping[str, Any]], Setup] = build, **changes: Any) -> Tuning:
    """A search over parts of 160 blobs, one for each of four candidates and one to choose by."""
    search = PartsSearch.make(changes.pop("grid", PARTS_GRID), **changes.pop("score", {}))
    plan = search.over(tiny_plan(**({"population": ROWS * search.share} | changes.pop("plan", {}))))
    options: dict[str, Any] = {"run_dir": folder / "run", "data": blobs(ROWS), "ids": range(ROWS)} | changes
    return Tuning(plan, make, options.pop("data"), **in_records(options))


def tuning(folder: Path, make: Callable[[Mapping[str, Any]], Setup] = build, **changes: Any) -> Tuning:
    """A search over runs of the tiny plan; `changes` win, those of `plan` and `search` are settings of these."""
    score = changes.pop("score", SCORE)
    search = Search.make(changes.pop("grid", GRID), changes.pop("trials", LAW), score=score)
    plan = search.over(tiny_plan(**changes.pop("plan", {})))
    options: dict[str, Any] = {"run_dir": folder / "run", "public_validation": blobs(9, seed=1)} | changes
    return Tuning(plan, make, options.pop("data", blobs()), **in_records(options))


def with_trials(monkeypatch: pytest.MonkeyPatch, number: int, order: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> None:
    """Make the number of trials what it is told to be, and go through the candidates in this order."""
    turns = itertools.cycle(order)
    monkeypatch.setattr(module, "draw_trials", lambda _law, _stream: number)
    monkeypatch.setattr(module, "uniform_index", lambda _size, _stream: next(turns))


def recording(models: list[nn.Module]) -> Callable[[Mapping[str, Any]], Setup]:
    """`build` that keeps its models."""

    def made(settings: Mapping[str, Any]) -> Setup:
        setup = build(settings)
        models.append(setup.model)
        return setup

    return made
