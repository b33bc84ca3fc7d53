"""A sampler whose batches are not what it promises: a unit twice would be in the sum twice, at one sensitivity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from discreet import InputError, Plan, Training, UnsupportedModel
from discreet.data import Sites
from discreet.sampling import PoissonSampler, as_promised

PLAN = Plan.poisson(population=40, batch=10, steps=2, clip_norm=1.0, noise_multiplier=1.0, delta=1e-3)


def training(folder: Path, make: Any = torch.optim.SGD, data: object = None, **shared: Any) -> Training:
    model = nn.Linear(3, 2)
    rows = (torch.randn(40, 3), torch.arange(40) % 2) if data is None else data
    optimizer = make(model.parameters(), lr=0.1)
    return Training(PLAN, model, nn.CrossEntropyLoss(), optimizer, rows, run=folder, **shared)


@pytest.mark.parametrize(
    "drawn",
    [
        (np.array([0, 0, 1]),),
        (np.array([3, 1]),),
        (np.array([-1, 2]),),
        (np.array([2, 40]),),
        (np.array([0.0, 1.0]),),
        (np.array([[0, 1]]),),
        ([0, 1],),
        np.array([0, 1]),
        (),
        (np.array([0]), np.array([1])),
    ],
    ids=["twice", "unordered", "negative", "beyond", "fractions", "matrix", "list", "bare", "none", "two"],
)
def test_a_batch_that_was_not_promised_moves_nothing(
    drawn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = training(tmp_path / "run")
    before = one.model.weight.detach().clone()  # type: ignore[union-attr,operator]
    monkeypatch.setattr(PoissonSampler, "batches", lambda *_: drawn)
    with pytest.raises(
        InputError, match=r"the sampler PoissonSampler draws something else than 1 array.s. of whole numbers"
    ):
        one.run(progress=False)
    assert torch.equal(one.model.weight, before)  # type: ignore[arg-type]


@pytest.mark.parametrize("drawn", [np.array([], np.int64), np.array([0, 39]), np.arange(40, dtype=np.int32)])
def test_a_batch_that_was_promised_is_taken(drawn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PoissonSampler, "batches", lambda *_: (drawn,))
    assert training(tmp_path / "run").run(progress=False).charged_steps == 2


@pytest.mark.parametrize(
    "drawn", [np.array([0, 0, 1]), np.array([25]), np.array([3, 1])], ids=["twice", "of another site", "unordered"]
)
def test_so_it_is_at_each_of_several_sites(drawn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, classes = torch.randn(40, 3), torch.arange(40) % 2
    sites = Sites({0: (rows[:20], classes[:20]), 1: (rows[20:], classes[20:])}, of=2)
    one = training(tmp_path / "run", data=sites, shard="replicate")
    before = one.model.weight.detach().clone()  # type: ignore[union-attr,operator]
    monkeypatch.setattr(PoissonSampler, "batches", lambda _, first, size, stream: (drawn,))
    with pytest.raises(InputError, match="the sampler PoissonSampler draws something else"):
        one.run(progress=False)
    assert torch.equal(one.model.weight, before)  # type: ignore[arg-type]


def test_an_optimizer_that_wants_a_closure_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    class Closed(torch.optim.SGD):
        def step(self, closure: Any) -> Any:  # type: ignore[override]
            return closure()

    with pytest.raises(UnsupportedModel, match="a Closed, whose step cannot be called without arguments"):
        training(tmp_path / "run", Closed)
    assert not (tmp_path / "run").exists()


def test_batches_in_few_bits_have_room_for_the_place_of_a_site() -> None:
    """In eight bits, 43 units on from unit 100 would be another row, or none."""
    (batch,) = as_promised(PLAN.sampler, (np.array([3, 43], dtype=np.int8),), 100)
    assert (batch + 100).tolist() == [103, 143]
