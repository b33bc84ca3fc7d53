"""Embeddings of what all examples have in common: each example counts as one with a table of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from common_tokens import APART, CLASSES, COMMON, LENGTH, REFUSED, WORDS, Looking, Meets, rows
from torch import nn

from discreet import Plan, RunOptions, Training
from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.separation import Mixes, proved
from discreet.clipping.separation.recording.program import Template
from discreet.clipping.separation.recording.recorder import as_proved
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel

LOSS = nn.CrossEntropyLoss(reduction="none")


def running(model: nn.Module) -> Callable[[int], None]:
    """Clipped sums of random rows."""

    def run(count: int) -> None:
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(*rows(count)), Clip(1.0, 2.0**-30))

    return run


def broadcast(template: Template) -> set[str]:
    """The modules whose parameters are proved to be broadcast."""
    return {one.ref.at.removesuffix(".weight") for one in template.one.broadcast}


def agrees(model: nn.Module, template: Template, given: Chunk, norm: float, engine: str = "bookkeeping") -> None:
    """An engine's clipped sums agree with those of `reference`, as the proof lets it take the model."""
    clip = Clip(norm, norm * 2.0**-30)
    wanted = ENGINES["reference"].clipped_sum(model, LOSS, given, clip)
    with as_proved(template.one.broadcast):
        found = ENGINES[engine].clipped_sum(model, LOSS, given, clip)
    for name, total in wanted.items():
        torch.testing.assert_close(found[name].double(), total, rtol=1e-5, atol=3e-6 * min(norm, 1.0), msg=name)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", [*COMMON, *APART])
def test_clipped_sums_are_those_of_one_pass_per_example(name: str, engine: str) -> None:
    """Of one row, of as many as there are places, of others. A clip norm of 1e-3 clips every gradient."""
    held, meets = COMMON[name] if name in COMMON else (set(), APART[name])
    model = Looking(meets)
    template = proved(running(model))
    assert broadcast(template) == held
    for count in (1, 2, 4, 5, 7):
        for norm in (1e-3, 1e3):
            agrees(model, template, Chunk(*rows(count)), norm, engine)


def test_units_of_several_rows() -> None:
    model = Looking(COMMON["places and distances"][1])
    agrees(model, proved(running(model)), Chunk(*rows(9), Units((2, 3, 4))), 1e-3)


def test_a_table_that_pads_has_no_gradient_there() -> None:
    model = Looking(COMMON["places"][1], padding=2)
    template = proved(running(model))
    assert broadcast(template) == {"places"}
    agrees(model, template, Chunk(*rows(6)), 1e3)


@pytest.mark.parametrize("name", REFUSED)
def test_other_uses_are_not_proved(name: str) -> None:
    with pytest.raises((Mixes, UnsupportedModel)):
        proved(running(Looking(REFUSED[name])))


@pytest.mark.parametrize("length", [5, 7, 10, 14, 35])
def test_as_many_places_as_a_batch_that_is_tried_has_rows(length: int) -> None:
    model = Looking(lambda m, x, h: h + m.many(torch.arange(length)).mean(0))
    model.many = nn.Embedding(length, 3)
    template = proved(running(model))
    assert broadcast(template) == {"many"}
    for count in (4, 5, 7):
        agrees(model, template, Chunk(*rows(count)), 1e-3)


def test_a_table_whose_gradients_are_sparse_is_left_to_others() -> None:
    with pytest.raises(UnsupportedModel, match="'places'"):
        proved(running(Looking(COMMON["places"][1], sparse=True)))


def test_a_table_that_is_a_head_as_well_is_left_to_others() -> None:
    model = Looking(lambda m, x, h: m.head(h + m.places(torch.arange(4))))
    model.head = nn.Linear(3, 7)
    model.head.weight = model.places.weight
    model.last = nn.Linear(7, CLASSES)
    with pytest.raises(UnsupportedModel, match="'places'"):
        proved(running(model))


def made(meets: Meets, engine: str, folder: Path) -> Training:
    """A run that would train the model."""
    plan = Plan.poisson(population=210, batch=60, steps=2, clip_norm=1.0, noise_multiplier=2.0, delta=1e-5)
    model = Looking(meets)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    data = torch.randint(0, WORDS, (200, LENGTH)), torch.arange(200) % CLASSES
    return Training(plan, model, nn.CrossEntropyLoss(), optimizer, data, engine=engine, run=RunOptions(folder / "run"))


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_no_chunk_of_a_run_is_done_again(engine: str, tmp_path: Path) -> None:
    run = made(COMMON["places in a batch of one"][1], engine, tmp_path)
    for count in (1, 2, 5, 6, 7, 33):
        run.engine.clipped_sum(run.model, run.criterion, Chunk(*rows(count)), Clip(1.0, 2.0**-30))
    assert run.engine.clipped_sum.together.again == 0  # type: ignore[attr-defined]


def test_such_a_model_is_run_by_bookkeeping(tmp_path: Path) -> None:
    assert made(COMMON["places"][1], "auto", tmp_path).engine.name == "bookkeeping"
