"""Rows that meet now and then, late, or on the way back: refused, or bounded in every chunk of a run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from mixing_late import BACK, LATE
from mixing_modules import FEATURES, RARELY, Two
from mixing_runs import moves, training
from torch import Tensor, nn

from discreet import Augmented, Training, UnsupportedModel
from discreet.clipping import ENGINES, Chunk, Clip, Engine
from discreet.clipping.engines.long_rows import LongAlone
from discreet.clipping.separation import Function, Together
from discreet.clipping.separation.copies import Twin
from discreet.clipping.separation.recording.recorder import Recorder
from discreet.clipping.separation.watched import sums_or_none
from discreet.core.errors import InputError
from discreet.data import as_private
from discreet.training.augmented_views import transformed
from discreet.training.preflight.data_check import try_every_row
from discreet.training.preflight.watching import with_rows_apart

STEPS = 20  # of 60 rows: what comes after 1,000 rows comes in the last three


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", ["manifold mixup, 0.1", "manifold mixup, 0.001", "noise by deviation, 0.1"])
def test_mixing_now_and_then_is_refused_where_batches_run_as_batches(name: str, engine: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"by aten\.rand, which draws numbers that examples have in common"):
        training(RARELY[name], engine, tmp_path)


def test_a_hook_that_mixes_gradients_now_and_then_is_refused(tmp_path: Path) -> None:
    """By what is seen of it first: the function, or that random numbers of all examples decide on it."""
    with pytest.raises(UnsupportedModel, match=r"a derivative of its own|draws numbers that examples have in common"):
        training(BACK["a function now and then"], "bookkeeping", tmp_path)


def test_an_engine_that_cannot_run_what_is_drawn_is_not_chosen(tmp_path: Path) -> None:
    """Or else every row would fail in every step, and training would be on noise."""
    with pytest.raises(UnsupportedModel, match="'vmap' cannot run this model"):
        training(RARELY["manifold mixup, 0.1"], "auto", tmp_path)


@pytest.mark.parametrize("name", LATE)
def test_what_comes_late_moves_no_sum(name: str) -> None:
    assert moves(LATE[name], "bookkeeping", STEPS) <= 1.01


def test_what_is_remembered_late_moves_no_sum_of_an_engine_that_runs_rows_apart() -> None:
    assert moves(LATE["late queue"], "reference", STEPS) <= 1.01


class Exchanged(nn.Module):
    """Puts statistics of a chunk into a buffer late, which the next chunk is scaled by."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head, self.calls = nn.Linear(FEATURES, 2), 0
        self.register_buffer("scale", torch.zeros(FEATURES))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(x * (1 + self.scale))
        mean = x.detach().mean(0)
        self.calls += 1
        if self.calls == 300:
            self.scale = mean
        return output


class Remembering:
    """A loss that adds the mean of earlier outputs, when it has seen 600."""

    def __init__(self) -> None:
        self.outputs: list[Tensor] = []

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        if float(output.detach().sum()) > 1e9:  # cannot be vectorised
            return output.sum()
        self.outputs.append(output.detach())
        late = torch.cat(self.outputs[-100:]).mean(0) if len(self.outputs) > 600 else 0.0
        return nn.functional.cross_entropy(output + late, target)


class Noting:
    """A loss in which, after the checks, a long row leaves a note for the next one: none is left after a chunk."""

    checked = False

    def __init__(self) -> None:
        self.noted = False

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        long = float(output.detach().square().sum()) > 100  # so it cannot be vectorised
        before, self.noted = self.noted, long and self.checked
        return nn.functional.cross_entropy(-output if before else output, target)


def test_a_buffer_that_is_exchanged_moves_no_sum() -> None:
    assert moves(Exchanged, "bookkeeping", 320) <= 1.01


def test_a_loss_that_remembers_moves_no_sum() -> None:
    assert moves(Two, "ghost", 13, loss=Remembering) <= 1.01


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "reference"])
def test_a_loss_that_remembers_a_row_until_the_next_moves_no_sum(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = partial(monkeypatch.setattr, Noting, "checked", True)
    assert moves(Two, engine, 3, loss=Noting, long=30, prepare=lambda _: checked()) <= 1.01


@pytest.mark.parametrize("name", ["late mean", "late queue"])
def test_that_bound_is_missed_by_an_engine_that_is_not_watched(name: str) -> None:
    def plain(run: Training) -> Engine:
        return replace(run.engine, clipped_sum=ENGINES[run.engine.name].clipped_sum)

    assert moves(LATE[name], "bookkeeping", STEPS, plain) > 1.5


def test_chunks_of_ordinary_models_are_not_done_again(tmp_path: Path) -> None:
    made = training(Two, "bookkeeping", tmp_path)
    made.run(progress=False)
    assert isinstance(made.engine.clipped_sum, LongAlone)
    together = made.engine.clipped_sum.together
    assert isinstance(together, Together)
    assert together.again == 0


def cutmix(inputs: Tensor) -> Tensor:
    return torch.cat([inputs[:, :4], inputs.flip(0)[:, 4:]], 1) if bool(torch.rand(()) < 0.5) else inputs


def erased(inputs: Tensor) -> Tensor:
    return torch.where(torch.rand(()) < 0.5, inputs.mean(0).expand_as(inputs), inputs)


def jittered(inputs: Tensor) -> Tensor:
    return inputs * (1 + 0.1 * torch.rand(len(inputs), 1))


@pytest.mark.parametrize("transform", [cutmix, erased])
def test_a_transform_that_mixes_rows_now_and_then_sees_one_at_a_time(transform: object, tmp_path: Path) -> None:
    function = Function(transform, torch.rand(12, FEATURES))  # type: ignore[arg-type]
    rows = torch.arange(5.0).view(5, 1).expand(5, FEATURES).clone()
    assert all(torch.equal(function(rows), rows) for _ in range(20))  # alone, a row can only be mixed with itself
    assert 5 <= function.again <= 20


def test_a_transform_that_keeps_rows_apart_sees_all_at_once() -> None:
    function = Function(jittered, torch.rand(12, FEATURES))
    for rows in (1, 2, 7, 30):
        assert len(function(torch.rand(rows, FEATURES))) == rows
    assert function.again == 0


@pytest.mark.parametrize("fails", [False, True])
def test_what_becomes_of_rows_is_settled_before_the_run_where_random_rows_are_not_taken(fails: bool) -> None:
    """A row that comes first in a chunk later on, and fails or has another type then, decides nothing of the others."""
    begun = False

    def levels(rows: Tensor) -> Tensor:
        if bool((rows < 1).any()) or (fails and begun and bool((rows > 500).any())):
            raise ValueError("levels are from 1")
        return rows.double() if begun and bool((rows > 500).any()) else 2 * rows

    function = Function(levels, torch.rand(12, FEATURES))
    odd, rows = torch.full((1, FEATURES), 1000.0), torch.full((4, FEATURES), 2.0)
    assert torch.equal(function(torch.cat([rows, odd])), 2 * torch.cat([rows, odd]))  # the check of all rows
    begun = True
    found = function(torch.cat([odd, rows]))
    assert torch.equal(found[1:], 2 * rows)
    assert bool(found[0].isnan().all())
    assert bool(function(odd).isnan().all())  # alone in its chunk


def test_a_row_that_a_transform_makes_sparse_is_lost_and_ends_nothing() -> None:
    def doubled(rows: Tensor) -> Tensor:
        return (2 * rows).to_sparse() if bool((rows == 9).any()) else 2 * rows

    rows = torch.rand(3, FEATURES)
    rows[1] = 9.0
    found = Function(doubled, torch.rand(12, FEATURES))(rows)
    assert bool(found[1].isnan().all())
    assert torch.equal(found[[0, 2]], 2 * rows[[0, 2]])


@pytest.mark.parametrize("least", [0.0, 1.0])
def test_rows_may_be_on_another_device_than_when_they_were_checked(least: float) -> None:
    """Lightning moves a model when a run begins. `least` 1: random rows are not taken."""

    def doubled(rows: Tensor) -> Tensor:
        if rows.device.type == "cpu" and float(rows.min()) < least:
            raise ValueError
        return 2 * rows

    function, rows = Function(doubled, torch.rand(12, FEATURES)), torch.full((3, FEATURES), 2.0)
    assert torch.equal(function(rows), 2 * rows)
    assert function(rows.to("meta")).device.type == "meta"  # and not NaN of the first device


@pytest.mark.parametrize("first", [2, 1000])
def test_a_row_that_a_transform_makes_of_another_type_is_named_before_the_run(first: int) -> None:
    """Also if it comes first, and whole numbers have no NaN: else it would make zeros of all others."""

    def levels(rows: Tensor) -> Tensor:
        if not bool(((rows == 2) | (rows == 1000)).all()):
            raise ValueError("no such level")
        return rows.int() if bool((rows > 500).any()) else rows.long()

    rows = torch.full((20, FEATURES), 2)
    rows[0], rows[1] = first, 1002 - first
    model = nn.Embedding(2001, 2)
    data = with_rows_apart(as_private(Augmented((rows, torch.arange(20)), levels)), model)
    with pytest.raises(InputError, match=r"fails on row 1 of the data, or makes it .* of another shape or type"):
        try_every_row(model, lambda output, _: output.sum(), data)


def test_the_transform_of_a_run_is_looked_at(tmp_path: Path) -> None:
    data = Augmented((torch.rand(200, FEATURES), torch.arange(200) % 2), jittered)
    made = training(Two, "bookkeeping", tmp_path, data=data)
    made.run(progress=False)
    assert isinstance(made.data.transform, Function)
    assert made.data.transform.again == 0
    assert transformed(made.data, torch.rand(3, FEATURES)).shape == (3, FEATURES)


class Lazy(nn.Module):
    """Makes a table at its first call, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head, self.table = nn.Linear(FEATURES, 2), None

    def forward(self, x: Tensor) -> Tensor:
        if self.table is None:
            self.table = torch.linspace(0, 1, FEATURES)
        output: Tensor = self.head(x * self.table)
        return output


@pytest.mark.parametrize("engine", ["bookkeeping", "reference"])
def test_a_table_that_is_made_once_is_no_memory_of_rows(engine: str) -> None:
    assert moves(Lazy, engine, 3) <= 1.01


class Mapped(nn.Module):
    """Maps its layer over rows by torch.func."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(FEATURES, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = torch.func.vmap(self.head)(x)
        return found


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_a_model_of_torch_func_is_refused_in_words_where_batches_run_as_batches(engine: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"cannot be tried on batches of random rows|used outside the module"):
        training(Mapped, engine, tmp_path)
    assert training(Mapped, "auto", tmp_path).made_of.engine.name == "vmap"


def test_backward_passes_stay_in_the_thread_that_is_watched() -> None:
    """Those of cards would run in threads where no operator is recorded, and each chunk would be taken one by one."""
    found: list[bool] = []

    def sums(*_: object) -> dict[str, Tensor]:
        now = torch.autograd.set_multithreading_enabled(False)
        found.append(now.prev)
        now.__exit__(None, None, None)
        return {}

    with Recorder().recording():
        sums_or_none(
            sums, Twin(nn.Linear(2, 2), nn.MSELoss()), Chunk(torch.zeros(1, 2), torch.zeros(1, 2)), Clip(1.0, 1.0)
        )
    assert found == [False]
    now = torch.autograd.set_multithreading_enabled(True)
    assert now.prev
