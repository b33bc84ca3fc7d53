"""Modules for which the model has made another axis part of that of the examples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from merging import CLASSES, MERGED, OTHERWISE, SIDE, WIDTH, Merging, rows
from torch import nn

from discreet import Plan, RunOptions, Training
from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.capture import capture as capture_module
from discreet.clipping.clip import Group
from discreet.clipping.rules import base
from discreet.clipping.separation import Mixes, proved
from discreet.clipping.separation.recording.recorder import as_proved
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel
from discreet.training.unit_failures import FailureProbe, random_unit

LOSS = nn.CrossEntropyLoss(reduction="none")


def running(model: nn.Module) -> Callable[[int], None]:
    """Clipped sums of random rows."""

    def run(count: int) -> None:
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(*rows(count)), Clip(1.0, 2.0**-30))

    return run


def agrees(model: nn.Module, given: Chunk, clip: Clip, engine: str = "bookkeeping") -> None:
    """An engine's clipped sums agree with those of `reference`, as a proof lets it take the model."""
    wanted = ENGINES["reference"].clipped_sum(model, LOSS, given, clip)
    with as_proved(()):
        found = ENGINES[engine].clipped_sum(model, LOSS, given, clip)
    for name, total in wanted.items():
        torch.testing.assert_close(found[name].double(), total, rtol=1e-5, atol=3e-6 * min(clip.norm, 1.0), msg=name)


@pytest.mark.parametrize("name", MERGED)
def test_programs_are_proved_with_several_entries_of_each_example(name: str) -> None:
    merged, meets = MERGED[name]
    held = proved(running(Merging(meets))).one.held
    assert {one.module for one in held if one.inner > 1} == merged


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", MERGED)
def test_clipped_sums_are_those_of_one_pass_per_example(name: str, engine: str) -> None:
    """A clip norm of 1e-3 clips every gradient."""
    model = Merging(MERGED[name][1])
    for count in (1, 4, 7):
        for norm in (1e-3, 0.3, 1e3):
            agrees(model, Chunk(*rows(count)), Clip(norm, norm * 2.0**-30), engine)


@pytest.mark.parametrize("name", MERGED)
def test_units_of_several_rows_groups_and_scales(name: str) -> None:
    model = Merging(MERGED[name][1])
    names = [one for one, _ in model.named_parameters()]
    agrees(model, Chunk(*rows(9), Units((2, 3, 4))), Clip(0.1, 2.0**-30))
    groups = tuple(Group(0.05, frozenset((one,))) for one in names)
    agrees(model, Chunk(*rows(6)), Clip(0.05 * len(names) ** 0.5, 2.0**-30, groups=groups))
    scales = {one: 0.5 + torch.rand_like(part, dtype=torch.float64) for one, part in model.named_parameters()}
    agrees(model, Chunk(*rows(6)), Clip(0.3, 2.0**-30, scales={one: part.detach() for one, part in scales.items()}))


@pytest.mark.parametrize("name", MERGED)
def test_gradients_that_are_not_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "BUDGET", 300)
    agrees(Merging(MERGED[name][1]), Chunk(*rows(7)), Clip(0.1, 2.0**-30))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["places one by one", "windows", "frames"])
def test_a_row_that_is_not_finite_adds_nothing(name: str, value: float) -> None:
    model, (inputs, targets) = Merging(MERGED[name][1]), rows(6)
    inputs[2, 1] = value
    clip, rest = Clip(1.0, 2.0**-30), [0, 1, 3, 4, 5]
    with as_proved(()):
        found = ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(inputs, targets), clip)
        wanted = ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(inputs[rest], targets[rest]), clip)
    for parameter, total in wanted.items():
        torch.testing.assert_close(found[parameter], total)


@pytest.mark.parametrize("name", OTHERWISE)
def test_others_are_not_proved(name: str) -> None:
    with pytest.raises((Mixes, UnsupportedModel)):
        proved(running(Merging(OTHERWISE[name])))


@pytest.mark.parametrize("name", MERGED)
def test_without_a_proof_nobody_knows_whose_the_entries_are(name: str) -> None:
    model = Merging(MERGED[name][1])
    with pytest.raises(UnsupportedModel, match="its axis 0 must hold the examples"):
        running(model)(4)
    running(model)(1)


def test_a_wrong_number_of_entries_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would fail if the proof did not look at the number."""
    entries = capture_module._entries
    monkeypatch.setattr(capture_module, "_entries", lambda *given: 2 * entries(*given))
    with pytest.raises((Mixes, UnsupportedModel)):
        proved(running(Merging(MERGED["places one by one"][1])))


@pytest.mark.parametrize("name", ["places one by one", "windows", "frames", "several ways"])
def test_a_run_takes_chunks_of_all_sizes_as_batches(name: str, tmp_path: Path) -> None:
    plan = Plan.poisson(population=210, batch=60, steps=2, clip_norm=1.0, noise_multiplier=2.0, delta=1e-5)
    model, data = Merging(MERGED[name][1]), rows(200)
    optimizer, where = torch.optim.SGD(model.parameters(), lr=0.1), RunOptions(tmp_path / "run")
    run = Training(plan, model, nn.CrossEntropyLoss(), optimizer, data, engine="bookkeeping", run=where)
    for count in (1, 2, 5, 6, 7, 33):
        given, clip = Chunk(*rows(count)), Clip(0.1, 2.0**-30)
        found = run.engine.clipped_sum(run.model, run.criterion, given, clip)
        wanted = ENGINES["reference"].clipped_sum(run.model, run.criterion, given, clip)
        for parameter, total in wanted.items():
            torch.testing.assert_close(found[parameter].double(), total, rtol=1e-5, atol=1e-6)
    assert run.engine.clipped_sum.together.again == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["the entries of an example apart", "as many ones"])
def test_of_others_another_engine_is_taken(name: str, tmp_path: Path) -> None:
    plan = Plan.poisson(population=210, batch=60, steps=2, clip_norm=1.0, noise_multiplier=2.0, delta=1e-5)
    model, data = Merging(OTHERWISE[name]), rows(200)
    optimizer, where = torch.optim.SGD(model.parameters(), lr=0.1), RunOptions(tmp_path / "run")
    run = Training(plan, model, nn.CrossEntropyLoss(), optimizer, data, run=where)
    assert run.engine.name not in ("bookkeeping", "ghost")


def test_a_random_unit_of_several_rows_is_tried_in_a_run(tmp_path: Path) -> None:
    plan = Plan.poisson(
        population=60,
        batch=20,
        steps=2,
        clip_norm=1.0,
        noise_multiplier=2.0,
        delta=1e-4,
        unit="user",
        rows_per_unit=3,
    )
    model, where = Merging(MERGED["windows"][1]), RunOptions(tmp_path / "run")
    optimizer, units = torch.optim.SGD(model.parameters(), lr=0.1), [row % 50 for row in range(200)]
    given = {"units": units, "engine": "bookkeeping", "run": where}
    run = Training(plan, model, nn.CrossEntropyLoss(), optimizer, rows(200), **given)  # type: ignore[arg-type]
    unit = random_unit(model, run.data, CLASSES, 3)
    assert FailureProbe(run.preflight, model, run.criterion, unit).repeat() is not None


def test_rows_as_they_are() -> None:
    """What the tests take for granted of the rows."""
    inputs, targets = rows(5)
    assert inputs.shape == (5, SIDE, SIDE, WIDTH)
    assert set(targets.tolist()) == set(range(CLASSES))
