"""Numbers at the ends of their range, in data, model, plan and optimizer: a run ends well or in one line.

Either it publishes a folder that the verifier accepts, or it stops with an error of the library. In both cases every
step that was released is charged, and no release holds a value that is not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from power_rules import charged
from problems import blobs, linear, tiny_plan, tiny_training
from torch import Tensor, nn

from discreet import publish, verify
from discreet.clipping import ENGINES
from discreet.core.errors import DiscreetError
from discreet.core.release import Release
from discreet.training import Trained
from discreet.training import step as step_module

INPUTS, TARGETS = blobs()


def rows(value: float, which: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """The blobs with a value in some places."""
    inputs = INPUTS.clone()
    inputs[which(inputs) if which else torch.ones_like(inputs, dtype=torch.bool)] = value
    return inputs, TARGETS


def some(inputs: Tensor) -> Tensor:
    places = torch.zeros_like(inputs, dtype=torch.bool)
    places[::5, 1] = True
    return places


def rate_of(lr: float) -> Callable[[nn.Module], dict[str, Any]]:
    return lambda model: {"optimizer": torch.optim.SGD(model.parameters(), lr=lr)}


def of_type(kind: torch.dtype) -> Callable[[nn.Module], dict[str, Any]]:
    def changes(model: nn.Module) -> dict[str, Any]:
        return {"model": model.to(kind), "data": (INPUTS.to(kind), TARGETS)} | rate_of(0.1)(model)

    return changes


CASES: dict[str, dict[str, Any] | Callable[[nn.Module], dict[str, Any]]] = {
    "NaN in some rows": {"data": rows(math.nan, some)},
    "NaN everywhere": {"data": rows(math.nan)},
    "infinite values": {"data": rows(math.inf, some)},
    "values of 1e38": {"data": rows(1e38, some)},
    "values of 1e-38": {"data": rows(1e-38)},
    "subnormal values": {"data": rows(1e-44)},
    "all rows zero": {"data": rows(0.0)},
    "one class": {"data": (INPUTS, torch.zeros_like(TARGETS))},
    "hardly a batch": {"plan": tiny_plan(batch=1e-6, noise_multiplier=1.5)},
    "whole batches": {"plan": tiny_plan(batch=24)},
    "clip norm 1e-30": {"plan": tiny_plan(clip_norm=1e-30)},
    "clip norm 1e30": {"plan": tiny_plan(clip_norm=1e30)},
    "noise 1e-3": {"plan": tiny_plan(noise_multiplier=1e-3)},
    "noise 1e6": {"plan": tiny_plan(noise_multiplier=1e6)},
    "learning rate 1e30": rate_of(1e30),
    "learning rate 1e-30": rate_of(1e-30),
    "float16": of_type(torch.float16),
    "bfloat16": of_type(torch.bfloat16),
    "float64": of_type(torch.float64),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_a_run_ends_well_or_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, engine: str
) -> None:
    released: list[bool] = []
    real = step_module.apply

    def noted(release: Release, *rest: Any) -> None:
        released.append(all(bool(np.isfinite(value).all()) for value in release.tensors.values()))
        real(release, *rest)

    monkeypatch.setattr(step_module, "apply", noted)
    given, model = CASES[case], linear()
    changes = given(model) if callable(given) else given
    refusal = refusal_of(
        lambda: publish(
            trained(tmp_path, {"model": model, "engine": engine, "stream": None} | changes),
            tmp_path / "out",
        )
    )
    assert "\n" not in refusal
    assert (tmp_path / "out").exists() == (not refusal)
    if not refusal:
        assert verify(tmp_path / "out").accepted
        assert len(released) == 7
    assert all(released)
    assert charged(tmp_path / "run" / "ledger.sqlite") >= len(released)


def trained(folder: Path, made: dict[str, Any]) -> Trained:
    return tiny_training(folder, **made).run()


def refusal_of(run: Callable[[], object]) -> str:
    try:
        run()
    except DiscreetError as error:
        return str(error)
    return ""


def test_most_of_these_runs_end_well(tmp_path: Path) -> None:
    """So that the test above is no list of refusals."""
    ended = []
    for number, (case, given) in enumerate(CASES.items()):
        model = linear()
        made = {"model": model, "engine": "exact"} | (given(model) if callable(given) else given)
        if not refusal_of(partial(trained, tmp_path / str(number), made)):
            ended.append(case)
    assert len(ended) >= 12, ended
    assert {"all rows zero", "one class", "hardly a batch", "float64"} <= set(ended)
