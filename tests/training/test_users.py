"""Training that protects people with several rows: whom a step takes, what it takes of them, and what is certified."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from people import SHUFFLED, user_plan, user_training
from problems import Recorded, WithPublicTensors, blobs, linear, tiny_plan, tiny_training
from promises import a_published_folder_is_accepted
from torch import Tensor, nn

from discreet import Plan, publish, verify
from discreet.clipping import ENGINES, Chunk, Clip, Units
from discreet.clipping.engines import engine as engines
from discreet.core import assumptions
from discreet.core.adjacency import Unit
from discreet.core.errors import InputError
from discreet.ledger import Budget, Ledger
from discreet.plan import AllocationSampling, FixedSizeSampling, ShuffleSampling
from discreet.randomness import TestStream
from discreet.training import Training
from discreet.training import step as step_module

LOSS = nn.CrossEntropyLoss()


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_the_guarantee_is_about_a_user_and_costs_what_an_example_costs() -> None:
    mine, rows = user_plan(5), tiny_plan(population=4, batch=2)
    assert mine.guarantee().unit is Unit.USER
    assert rows.guarantee().unit is Unit.EXAMPLE
    assert mine.guarantee().epsilon == rows.guarantee().epsilon
    assert mine.calibrate(1.0).rows_per_unit == 5
    assert mine.calibrate(1.0).unit is Unit.USER


@pytest.mark.parametrize("engine", ENGINES)
def test_with_one_row_each_users_are_examples_to_the_bit(tmp_path: Path, engine: str) -> None:
    rows = tiny_training(tmp_path / "rows", engine=engine)
    users = tiny_training(
        tmp_path / "users", engine=engine, plan=tiny_plan(unit="user"), units=[f"person {i}" for i in range(24)]
    )
    assert users.engine.float_bits == rows.engine.float_bits
    assert torch.equal(weights(users.run().model), weights(rows.run().model))


def taken(training: Training, data: Recorded) -> list[list[int]]:
    """The rows that each step reads."""
    data.on_read = lambda _index: None
    steps = []
    with training.session() as session:
        while not session.finished:
            data.reads.clear()
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
            steps.append(list(data.reads))
    return steps


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_step_takes_at_most_so_many_rows_of_a_user_and_all_of_fewer(tmp_path: Path, rows: int) -> None:
    data = Recorded()
    steps = taken(user_training(tmp_path, rows, data=data, physical_batch=4), data)
    sizes = Counter(SHUFFLED.tolist())
    assert len(steps) == 7
    assert any(steps)
    for step in steps:
        assert len(set(step)) == len(step)
        found = Counter(int(SHUFFLED[row]) for row in step)
        assert all(found[user] == min(rows, sizes[user]) for user in found)


def test_rows_are_drawn_anew_at_every_step(tmp_path: Path) -> None:
    """Of 500 rows, ten at each of twelve steps: by chance no two steps are alike."""
    data = Recorded(500)
    plan = user_plan(10, population=1, batch=1, steps=12)
    steps = taken(user_training(tmp_path, data=data, plan=plan, units=["only"] * 500), data)
    assert [len(step) for step in steps] == [10] * 12
    assert len({tuple(step) for step in steps}) == 12


SAMPLINGS = {
    "fixed_size": (FixedSizeSampling(batch=2), "replace_one", 4),
    "shuffle": (ShuffleSampling(batch=3), "zero_out", 4),
    "allocation": (AllocationSampling(period=2), "zero_out", 4),
}


@pytest.mark.parametrize("kind", SAMPLINGS)
def test_other_samplers_draw_users_too(tmp_path: Path, kind: str) -> None:
    sampling, adjacency, steps = SAMPLINGS[kind]
    plan = Plan.make(
        sampling,
        population=4,
        steps=steps,
        clip_norm=1.0,
        delta=1e-5,
        noise_multiplier=1.0,
        adjacency=adjacency,
        unit="user",
        rows_per_unit=2,
    )
    data = Recorded()
    found = [
        Counter(int(SHUFFLED[row]) for row in step)
        for step in taken(user_training(tmp_path, plan=plan, data=data), data)
    ]
    most = {30: 1, 10: 2, 20: 2, 40: 2}
    assert all(step[user] == most[user] for step in found for user in step)
    users = [user for step in found for user in step]
    assert Counter(users) == dict.fromkeys(most, 2) if kind != "fixed_size" else len(users) == 2 * steps


def one_step(
    folder: Path, patch: pytest.MonkeyPatch, engine: str, data: tuple[Tensor, Tensor], units: Any, **given: Any
) -> Any:
    """The clipped sum of a first step on everybody, with at most four rows of each."""
    plan = user_plan(4, population=8, batch=8, steps=1, block=1, clip_norm=0.05)
    sums: list[Any] = []
    real = step_module.gaussian_release
    with patch.context() as inner:
        inner.setattr(step_module, "gaussian_release", lambda total, *rest: sums.append(total) or real(total, *rest))
        tiny_training(folder, plan=plan, engine=engine, data=data, units=units, **given).run()
    return sums[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_user_with_a_thousand_rows_counts_like_one_with_four(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    """The thousand rows are alike; with them or without, the sum moves by the clip norm, and not by more."""
    inputs, targets = blobs(6)
    units = [0, 0, 1, 2, 2, 2]
    without = one_step(tmp_path / "without", monkeypatch, engine, (inputs, targets), units)
    moved = {}
    for count in (4, 1000):
        data = torch.cat([inputs, 30 * inputs[:1].repeat(count, 1)]), torch.cat([targets, targets[1:2].repeat(count)])
        total = one_step(tmp_path / str(count), monkeypatch, engine, data, [*units, *[9] * count])
        assert total.sensitivity == without.sensitivity
        moved[count] = {name: total.tensors[name] - without.tensors[name] for name in total.tensors}
        length = sum(float(np.square(part).sum()) for part in moved[count].values()) ** 0.5
        assert 0.05 * (1 - 1e-4) <= length <= total.sensitivity
    for name in moved[4]:
        assert np.allclose(moved[4][name], moved[1000][name], rtol=0, atol=1e-6)


class OverPlaces(nn.Module):
    """The mean of a layer without a bias over its places: rows of zeros have no gradient."""

    def __init__(self, layer: nn.Module, axis: int) -> None:
        super().__init__()
        self.layer, self.axis = layer, axis

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).mean(self.axis)


LAYERS = {
    "linear": (lambda: OverPlaces(nn.Linear(512, 512, bias=False), 1), (64, 512)),
    "convolution": (lambda: OverPlaces(nn.Conv1d(64, 64, 3, bias=False), 2), (64, 20)),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_a_user_with_several_rows_does_not_change_how_others_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, layer: str
) -> None:
    """Her rows have no gradient. As long as the largest user of a chunk chose how norms are found, she moved the sum
    through those of others, by up to 70 times what the sensitivity has room for."""
    build, shape = LAYERS[layer]
    inputs, targets = torch.randn(7, *shape, generator=torch.Generator().manual_seed(1)), torch.arange(7)
    data = {0: (inputs, targets), 4: (torch.cat([inputs, torch.zeros(4, *shape)]), torch.cat([targets, targets[:4]]))}
    sums = []
    for rows, given in data.items():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = build()
        units = [*range(7), *[7] * rows]
        sums.append(one_step(tmp_path / str(rows), monkeypatch, engine, given, units, model=model))
    parts = [np.subtract(part, sums[0].tensors[name], dtype=np.float64) for name, part in sums[1].tensors.items()]
    assert sum(float(np.square(part).sum()) for part in parts) ** 0.5 <= sums[0].sensitivity - 0.05


def test_the_engine_is_rehearsed_on_units_of_several_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Units | None] = []
    real = engines.ENGINES["vmap"]

    def clipped_sum(model: nn.Module, criterion: Any, chunk: Chunk, clip: Clip) -> dict[str, Tensor]:
        seen.append(chunk.units)
        sums = real.clipped_sum(model, criterion, chunk, clip)
        next(iter(sums.values())).view(-1)[0] += 2.0**-17 * clip.norm * (0 if chunk.units is None else chunk.size - 1)
        return sums

    monkeypatch.setitem(engines.ENGINES, "vmap", engines.Engine("vmap", clipped_sum, real.float_bits, "chunk"))
    training = user_training(tmp_path, engine="vmap")
    assert {units.sizes for units in seen if units is not None} >= {(1, 2, 3) * 4}
    assert training.engine.float_bits in (13, 14)
    assert "random units" in training.preflight.line


def test_chunks_hold_whole_users_and_their_number_is_public(tmp_path: Path) -> None:
    plan = user_plan(3, population=4, batch=4, steps=1, block=1)
    training = user_training(tmp_path, plan=plan, physical_batch=7)
    with training.session() as session, session.step() as step:
        sizes = []
        for chunk in step.chunks:
            sizes.append(len(chunk[0]))
            step.add(LOSS, chunk)
    assert sum(sizes) == 1 + 3 + 3 + 3
    assert len(sizes) == 2  # two users in each
    assert max(sizes) <= 6


class Crash(Exception):
    """The power goes."""


def test_a_run_that_crashed_goes_on_and_pays_for_every_step(tmp_path: Path) -> None:
    """A crash in the fifth step, inside the second block of three: the block stays charged, one step is left."""
    options: dict[str, Any] = {"stream": None, "physical_batch": 5}
    crashing = user_training(tmp_path, model=WithPublicTensors(), **options)
    releases = 0
    real = step_module.gaussian_release

    def release(*args: Any) -> Any:
        nonlocal releases
        releases += 1
        if releases == 5:
            raise Crash
        return real(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_module, "gaussian_release", release)
        with pytest.raises(Crash):
            crashing.run()
    data = Recorded()
    again = user_training(tmp_path, model=WithPublicTensors(), data=data, resume=True, **options)
    data.on_read = lambda _index: None
    trained = again.run()
    assert max(Counter(int(SHUFFLED[row]) for row in data.reads).values(), default=0) <= 3  # one step was left
    assert trained.charged_steps == 7
    publish(trained, tmp_path / "out")
    a_published_folder_is_accepted(tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert sum(entry["kind"] == "attempt" for entry in facts["ledger"]["entries"]) == 2


@pytest.mark.parametrize("engine", ["auto", "exact"])
def test_what_is_published_is_about_people_and_is_accepted(tmp_path: Path, engine: str) -> None:
    trained = user_training(
        tmp_path, stream=None, model=WithPublicTensors(), engine=engine, public_test=blobs(9, seed=1)
    ).run()
    publish(trained, tmp_path / "out")
    a_published_folder_is_accepted(tmp_path / "out")
    assert "unit user" in verify(tmp_path / "out").summary
    facts = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert facts["claim"]["unit"] == facts["plan"]["unit"] == facts["ledger"]["entries"][0]["body"]["unit"] == "user"
    assert facts["plan"]["rows_per_unit"] == 3
    said = (
        "Rows with the same identifier are one unit, and are made from its records alone; identifiers are as the "
        "data's holder gives them."
    )
    assert said in facts["assumptions"]
    assert said in assumptions.general(Unit.USER)
    assert not any(text.startswith("Each row of the data set is one unit") for text in facts["assumptions"])
    card, page = ((tmp_path / "out" / name).read_text() for name in ("README.md", "report.html"))
    for text in (card, page.replace("&#39;", "'")):
        assert "one person's rows" in text
        assert "all rows of one person are added or removed" in text
        assert "every person is drawn independently" in text
        assert "A person whose rows have several identifiers is protected less" in text
        assert "several rows is protected less" not in text
    assert "at most 3 rows are used" in " ".join(page.split())
    assert "| rows of a person that one step uses | at most 3 |" in card


@pytest.mark.parametrize("unit", Unit)
def test_a_budget_pays_for_its_own_unit_only(tmp_path: Path, unit: Unit) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(path)
    ledger.set_budget("patients", Budget(100.0, 1e-3, unit=unit))
    ledger.close()
    training = user_training(tmp_path, ledger=path, dataset_id="patients")
    if unit is Unit.USER:
        assert training.run().charged_steps == 7
        return
    with pytest.raises(InputError, match="unit example, but the plan is for add_remove, unit user"):
        training.run()


def test_an_own_loop_looks_the_same(tmp_path: Path) -> None:
    loop = user_training(tmp_path / "loop", stream=TestStream(4), model=linear())
    with loop.session() as session:
        while not session.finished:
            with session.step() as step:
                for chunk in step.chunks:
                    step.add(LOSS, chunk)
    run = user_training(tmp_path / "run-of", stream=TestStream(4), model=linear()).run()
    assert torch.equal(weights(loop.model), weights(run.model))
