"""Modules without a rule are run again for each example: what they read then must be theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from films import After, Before, Film, Filmed, Late, Number, Same, Single
from mixing_modules import CLASSES, FEATURES, HIDDEN, Two
from mixing_runs import CLIP, moves, training
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from discreet import UnsupportedModel
from discreet.clipping import ENGINES, Chunk
from discreet.clipping.separation import Mixes, examined, proved
from discreet.training.preflight.engine_options import EngineOptions

LOSS = nn.CrossEntropyLoss()


def running(model: nn.Module) -> Callable[[int], None]:
    """Clipped sums of random rows."""

    def run(rows: int) -> None:
        given = torch.randn(rows, FEATURES), torch.arange(rows) % CLASSES
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(*given), CLIP)

    return run


def test_what_a_module_reads_of_the_batch_must_be_an_argument() -> None:
    with pytest.raises(Mixes, match=r"slice\.Tensor in module 'film' reads something of the batch that module 'film'"):
        examined(running(Before()))


@pytest.mark.parametrize("kind", [After, Number])
def test_what_a_module_holds_must_be_the_same_when_it_is_run_again(kind: type[nn.Module]) -> None:
    with pytest.raises(Mixes, match="module 'film' does something else when it is run again"):
        examined(running(kind()))


@pytest.mark.parametrize("kind", [Same, Single])
def test_nor_may_it_read_more_when_it_has_one_example_alone(kind: type[nn.Module]) -> None:
    with pytest.raises(Mixes, match="module 'film' reads something that it is not given when it has one example only"):
        examined(running(kind()))


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("kind", [Before, Same, After])
def test_such_models_are_refused_though_they_are_not_compared_in_training(
    kind: type[nn.Module], engine: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedModel, match="module 'film'"):
        training(kind, engine, tmp_path)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_rows_that_are_put_there_late_move_no_sum(engine: str) -> None:
    assert moves(Late, engine, 19, long=0) <= 1.01


class Own(nn.Module):
    """A layer without a rule, which makes a table at its first call and keeps what it returned last."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.last, self.table = nn.Parameter(torch.randn(HIDDEN, HIDDEN) / 4), torch.zeros(1), None
        self.register_buffer("mask", torch.ones(HIDDEN))

    def forward(self, h: Tensor, *, by: float = 1.0) -> Tensor:
        self.table = torch.linspace(0, by, HIDDEN) if self.table is None else self.table
        self.last = torch.tanh(h @ self.weight) * self.mask + self.table + torch.tensor(0.5)
        return self.last


class Counting(Own):
    """One that counts its calls: how many there are depends on how many rows there are."""

    calls = 0

    def forward(self, h: Tensor, *, by: float = 1.0) -> Tensor:
        self.calls += 1
        return super().forward(h, by=by)


class Layers(Two):
    """Modules that are run again, one of them called twice, another with a forward hook."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[torch.Size] = []
        self.own, self.other = Own(), parametrizations.weight_norm(nn.Linear(HIDDEN, HIDDEN))
        self.other.register_forward_hook(lambda *given: self.lengths.append(given[2].norm(dim=1).shape))

    def between(self, h: Tensor) -> Tensor:
        return self.other(self.own(self.own(h, by=2.0)))  # type: ignore[no-any-return]


class Wrapped(Two):
    """A film inside a class that does nothing else. The class holds a parameter that is broadcast outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.outer = nn.Sequential(Film())
        self.outer.by = nn.Parameter(torch.ones(HIDDEN))

    def between(self, h: Tensor) -> Tensor:
        self.outer[0].context = 0.5 * h.detach()
        return self.outer(h) * self.outer.by  # type: ignore[no-any-return]


def test_a_class_that_need_not_run_again_leaves_the_check_of_one_inside() -> None:
    with pytest.raises(Mixes, match=r"module 'outer\.0' reads something of the batch|'outer\.0' is not given"):
        examined(running(Wrapped()))


@pytest.mark.parametrize("kind", [Layers, Filmed])
def test_what_does_not_change_is_no_cause_for_alarm(kind: type[nn.Module]) -> None:
    proved(running(kind()))


def test_a_layer_that_counts_its_calls_is_refused(tmp_path: Path) -> None:
    class Counts(Two):
        def __init__(self) -> None:
            super().__init__()
            self.own = Counting()

        def between(self, h: Tensor) -> Tensor:
            return self.own(h)  # type: ignore[no-any-return]

    with pytest.raises(UnsupportedModel, match="module 'own' changes what it holds at each of its several calls"):
        training(Counts, "bookkeeping", tmp_path)


@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_no_chunk_of_such_a_model_is_done_again(tmp_path: Path, precision: torch.dtype | None) -> None:
    run = training(Layers, EngineOptions("bookkeeping", autocast=precision), tmp_path)  # type: ignore[arg-type]
    for rows in (1, 9):
        given = torch.randn(rows, FEATURES), torch.arange(rows) % CLASSES
        run.engine.clipped_sum(run.model, run.criterion, Chunk(*given, None), CLIP)
    assert run.engine.clipped_sum.together.again == 0  # type: ignore[attr-defined]
