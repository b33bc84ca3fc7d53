"""The proof for parameters that are broadcast: as if each example had a copy of them, whatever else is equal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from broadcasting import BROADCAST, BY_CHANCE, CLASSES, OTHERWISE, ROW, Held, Meets, rows
from torch import Tensor, nn

from discreet import Plan, RunOptions, Training
from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.separation import Mixes, proved
from discreet.clipping.separation.examine import recorded
from discreet.clipping.separation.recording.other_names import in_one_memory
from discreet.clipping.separation.recording.recorder import as_proved

CLIP, LOSS = Clip(1.0, 2.0**-30), nn.CrossEntropyLoss(reduction="none")


def running(model: nn.Module) -> Callable[[int], None]:
    """Clipped sums of random rows."""

    def run(count: int) -> None:
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(*rows(count)), CLIP)

    return run


@pytest.mark.parametrize("name", [*BROADCAST, *BY_CHANCE])
def test_programs_that_broadcast_are_proved(name: str) -> None:
    held, meets = (BROADCAST | BY_CHANCE)[name]
    assert {one.ref.at for one in proved(running(Held(meets, dropped=0.1))).one.broadcast} == held


@pytest.mark.parametrize("name", OTHERWISE)
def test_of_others_the_module_runs_again(name: str) -> None:
    """So they are proved as long as nothing is drawn."""
    held, meets = OTHERWISE[name]
    assert held.isdisjoint(one.ref.at for one in proved(running(Held(meets))).one.broadcast)


MEET: dict[str, Meets] = {
    "rows in the other order": lambda m, h: h + m.token.expand(len(h), 5, -1).flip(0),
    "rows moved on": lambda m, h: h + m.token.expand(len(h), 5, -1).roll(1, 0),
    "their mean": lambda m, h: h + m.token.expand(len(h), 5, -1).mean(0, keepdim=True),
    "the first of them": lambda m, h: h + m.token.expand(len(h), 5, -1)[:1],
    "the largest of them": lambda m, h: h + m.token.expand(len(h), 5, -1).amax(0),
    "the first of a list of them": lambda m, h: h + m.token.expand(len(h), 5, -1).unbind(0)[0],
    "a matrix of them": lambda m, h: h + m.token.expand(len(h), 1, -1).reshape(1, -1)[:, :4],
    "noise, the same for two": lambda m, h: h + (m.scale * torch.ones(len(h), 1, 1)).flip(0),
    "by another name": lambda m, h: h + m.scale.view(4) + m.token.view(1, 1, 4).expand(len(h), 1, -1).flip(0),
    "a later view": lambda m, h: h + m.token.expand(len(h), 1, -1).flip(0) + m.token.view(1, 1, 4),
    "one number, in another shape": lambda m, h: h + _turned(m.one * torch.ones(len(h), 5)),
    "one number by a view, in another shape": lambda m, h: h + _turned(m.one.view(1, 1) * torch.ones(len(h), 5)),
    "random numbers, in another shape": lambda m, h: h + _turned(m.one * torch.rand(len(h), 5)),
    "one number for all": lambda m, h: h + (m.one * torch.ones(len(h), 1, 1)).flip(0),
    "one number, moved on": lambda m, h: h + (m.one + torch.zeros(len(h), 1, 1)).roll(1, 0),
    "one number, by a view": lambda m, h: h + (m.one.view(1, 1) + torch.zeros(len(h), 1, 1)).flip(0),
    "one number, repeated": lambda m, h: h + m.one.expand(len(h), 1).flip(0).unsqueeze(2),
    "one number, added up": lambda m, h: h + (m.one * torch.ones(len(h), 1, 1)).cumsum(0),
    "random numbers": lambda m, h: h + (m.one * torch.rand(len(h), 1, 1)).flip(0),
    "the first of them, where the parameter is": lambda m, h: h + _first(m.token, len(h)),
    "the first of them, where a copy is": lambda m, h: h + _first(m.token.clone(), len(h)),
    "the first of them, as a tensor": lambda m, h: h + torch.as_tensor(m.token.expand(len(h), 1, -1)[0]),
    "as a tensor": lambda m, h: h + _turned(torch.as_tensor(m.one) * torch.ones(len(h), 5)),
    "as an array": lambda m, h: h + _turned(torch.asarray(m.one, requires_grad=True) * torch.ones(len(h), 5)),
    "through zeros": lambda m, h: h + (torch.zeros(1, 1, 4) + m.token).expand(len(h), 1, -1).flip(0),
    "through zeros of the batch": lambda m, h: h + torch.zeros(len(h), 1, 4).add_(m.token).flip(0),
    "through a part of them": lambda m, h: h + _written(torch.zeros(len(h), 5, 4), m.token).flip(0),
}
"""Programs in which what a broadcast parameter makes for one example reaches another. Without the gradient, nothing
would be wrong: all rows are equal."""


def _first(token: Tensor, rows: int) -> Tensor:
    """The first of equal rows. Afterwards the same place in memory, shape and strides are those of the parameter."""
    first = token.expand(rows, 1, -1)[0]
    token[0]
    return first


def _turned(numbers: Tensor) -> Tensor:
    """Numbers of shape (batch, 5) in another order, as (batch, 5, 1)."""
    return numbers.reshape(5, -1).t().unsqueeze(2)


def _written(zeros: Tensor, token: Tensor) -> Tensor:
    zeros[:, 1:2] += token
    return zeros


@pytest.mark.parametrize("name", MEET)
def test_rows_of_others_are_not_proved_although_all_are_equal(name: str) -> None:
    """A program may be proved where its module runs again."""
    try:
        template = proved(running(Held(MEET[name])))
    except Mixes:
        return
    assert {"token", "scale", "one"}.isdisjoint(one.ref.at for one in template.one.broadcast)


class Keeps(Held):
    """Keeps something in the memory of a parameter, made anew in every copy."""

    def __init__(self, keep: Callable[[Held], Tensor], meets: Meets, *, buffer: bool) -> None:
        super().__init__(meets)
        self.keep, self.buffer = keep, buffer
        self.register_buffer("known", None)
        self.again()

    def again(self) -> None:
        kept = self.keep(self)
        self.__dict__["kept"] = None if self.buffer else [kept]
        self._buffers["known"] = kept if self.buffer else None

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "kept"}

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self.again()


@pytest.mark.parametrize(
    ("keep", "buffer"),
    [
        (lambda m: m.one.view(1, 1), False),
        (lambda m: m.one.clone(), False),
        (lambda m: m.one.detach().view(1, 1), False),
        (lambda m: m.one.detach().view(1, 1), True),
    ],
)
def test_a_parameter_that_is_known_by_another_name_is_not_taken(keep: Callable[[Held], Tensor], buffer: bool) -> None:
    """The operators would be given what the model keeps, of which nobody follows that it is the parameter."""

    def meets(model: nn.Module, h: Tensor) -> Tensor:
        kept = model.known if buffer else model.kept[0]  # type: ignore[index]
        used = kept if kept.requires_grad else (kept.view(1), model.one)[1]
        return h + _turned(used * torch.ones(len(h), 5)) + model.one  # type: ignore[operator]

    try:
        template = proved(running(Keeps(keep, meets, buffer=buffer)))
    except Mixes:
        return
    assert "one" not in {one.ref.at for one in template.one.broadcast}


@pytest.mark.parametrize("shared", [False, True])
def test_nor_is_one_whose_memory_a_buffer_shares(shared: bool) -> None:
    def keep(model: Held) -> Tensor:
        return model.one.detach().view(1, 1) if shared else torch.zeros(1, 1)

    template = proved(running(Keeps(keep, lambda m, h: h * m.one, buffer=True)))
    assert {one.ref.at for one in template.one.broadcast} == (set() if shared else {"one"})


def test_memory_in_common() -> None:
    memory = torch.zeros(4, 6)
    apart = [memory[:2], memory[2:3], memory[3], torch.zeros(0), memory[0, :0]]
    assert in_one_memory(apart) == set()
    assert in_one_memory([*apart, torch.zeros(6)]) == set()
    column, inside, behind = memory[:3, 1], memory[1], memory[3]
    assert in_one_memory([behind, inside, column]) == {id(inside), id(column)}
    again = memory[3].view(2, 3)
    assert in_one_memory([behind, inside, again]) == {id(behind), id(again)}


def test_a_pass_that_takes_other_parameters_is_another_program() -> None:
    """The class runs again for `narrow` in any case, so that nothing else tells the two apart."""
    run = running(Held(lambda m, h: h * m.scale + (m.narrow * m.narrow).t()))  # type: ignore[operator]
    template = proved(run)
    assert {one.ref.at for one in template.one.broadcast} == {"scale"}
    with as_proved(template.one.broadcast):
        assert all(map(template.matches, recorded(run, 9)))
    with as_proved(()):
        assert not any(map(template.matches, recorded(run, 9)))


@pytest.mark.parametrize("length", [8, 12, 14])
def test_a_constant_as_long_as_a_batch_that_is_tried_is_no_cause_for_alarm(length: int) -> None:
    slopes = torch.arange(float(length))[:, None]
    proved(running(Held(lambda m, h: h + (slopes * m.scale).sin().sum(0))))  # type: ignore[operator]


@pytest.mark.parametrize("name", BY_CHANCE)
def test_constant_rows_are_not_taken_for_examples(name: str, tmp_path: Path) -> None:
    """In a run the proof decides, which was made for batches of other sizes."""
    run = made(Held(BY_CHANCE[name][1]), tmp_path)
    for count in (1, 4, 5, 7, 9):
        given = Chunk(*rows(count))
        found = run.engine.clipped_sum(run.model, run.criterion, given, CLIP)
        wanted = ENGINES["reference"].clipped_sum(run.model, run.criterion, given, CLIP)
        torch.testing.assert_close(found["token"].double(), wanted["token"], rtol=1e-5, atol=1e-6)
    assert run.engine.clipped_sum.together.again == 0  # type: ignore[attr-defined]


def made(model: nn.Module, folder: Path) -> Training:
    """A run that would train the model by book-keeping."""
    plan = Plan.poisson(population=210, batch=60, steps=2, clip_norm=1.0, noise_multiplier=2.0, delta=1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    data = torch.randn(200, *ROW), torch.arange(200) % CLASSES
    run = RunOptions(folder / "run")
    return Training(plan, model, nn.CrossEntropyLoss(), optimizer, data, engine="bookkeeping", run=run)


def test_no_chunk_of_a_model_that_draws_is_done_again(tmp_path: Path) -> None:
    run = made(Held(BROADCAST["all"][1], dropped=0.2), tmp_path)
    for count in (1, 2, 5, 6, 7, 33):
        run.engine.clipped_sum(run.model, run.criterion, Chunk(*rows(count)), CLIP)
    assert run.engine.clipped_sum.together.again == 0  # type: ignore[attr-defined]
