"""Private rows are run through twins of the model: what one leaves behind, changes or breaks, no other one meets."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from mixing_losses import (
    Balanced,
    EverySecond,
    Returns,
    TurnsTargets,
    WithTerm,
    of_scores,
)
from mixing_modules import FEATURES, Two
from mixing_runs import CLIP, moves, training
from mixing_twins import (
    GROWN,
    LATER,
    Busy,
    Swapped,
    grow,
    is_long,
)
from torch import Tensor, nn

from discreet.clipping import Chunk, private_parameters, training_mode
from discreet.clipping.separation.copies import Twins
from discreet.clipping.vectorise import own_rule
from discreet.core.errors import UnsupportedModel

ENGINES = ("bookkeeping", "ghost", "vmap", "reference", "exact")


def moved(kind: type[nn.Module], engine: str, steps: int, **more: object) -> float:
    """The farthest that the row moved a sum; none for a model that is refused."""
    try:
        return moves(kind, engine, steps, **more)  # type: ignore[arg-type]
    except UnsupportedModel:
        return 0.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", LATER)
def test_no_row_meets_what_another_left(name: str, engine: str) -> None:
    assert moved(LATER[name], engine, 9 if name == "Full" else 2, long=20) <= 1.01 or name == "SwitchedOff"
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("engine", ["reference", "exact"])
def test_a_part_that_is_switched_off_is_on_for_the_next_row(engine: str) -> None:
    """The long row is the last of its chunk, so that the others draw the same; the chunk after it is looked at."""
    assert moves(LATER["SwitchedOff"], engine, 3) <= 1.01


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("name", GROWN)
def test_what_comes_with_grown_weights_is_followed(name: str, engine: str) -> None:
    with warnings.catch_warnings(action="ignore"):  # torch's, of an output that is resized
        assert moved(GROWN[name], engine, 2, prepare=grow, long=3, rows=20) <= 1.01


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loss_does_not_remember_within_a_chunk(engine: str) -> None:
    assert moved(Two, engine, 2, loss=EverySecond) <= 1.01


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loss_that_writes_to_its_targets_finds_them_as_they_were(engine: str) -> None:
    assert moved(Busy, engine, 4, loss=TurnsTargets) <= 1.01


@pytest.mark.parametrize("engine", ENGINES)
def test_layers_that_change_places_are_those_that_were_named(engine: str) -> None:
    assert moved(Swapped, engine, 4) <= 1.01


class Seeds:
    """A loss that seeds torch's generator."""

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        torch.manual_seed(0)
        return nn.functional.cross_entropy(output, target)


class Dropped(Two):
    """Draws a mask for each row."""

    def between(self, h: Tensor) -> Tensor:
        return nn.functional.dropout(h, 0.5, self.training)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "reference", "exact"])
def test_a_loss_that_seeds_the_generator_decides_nothing_of_the_next_chunk(engine: str, tmp_path: Path) -> None:
    run, found = training(Dropped, engine, tmp_path, criterion=Seeds()), []
    training_mode(run.model)
    rows = torch.randn(20, FEATURES, generator=torch.Generator().manual_seed(1)), torch.arange(20) % 2
    for seed in (3, 4):
        torch.manual_seed(seed)
        sums = [run.engine.clipped_sum(run.model, run.criterion, Chunk(*rows, None), CLIP) for _ in range(2)]
        found.append(sums[1]["last.weight"].double())
    assert float((found[0] - found[1]).norm()) > 1


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_what_cannot_be_followed_is_refused(engine: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match="an object of type Scores, of which nobody can tell"):
        training(Returns, engine, tmp_path, criterion=of_scores)
    model = Balanced()
    with pytest.raises(UnsupportedModel, match="the loss holds the model"):
        training(lambda: model, engine, tmp_path, criterion=WithTerm(model))


PROGRAM = """
import sys
import torch
from pathlib import Path
from mixing_modules import Two
from mixing_runs import training
from discreet.core.errors import UnsupportedModel

class Blocks(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x * 1

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient

    @staticmethod
    def vmap(info, in_dims, x):  # rows of several blocks change places
        x = x.movedim(in_dims[0], 0)
        return (torch.cat([x[32:], x[:32]]) if info.batch_size > 32 else x * 1), 0

class WithBlocks(Two):
    def between(self, h):
        return Blocks.apply(h)

try:
    training(WithBlocks, "vmap", Path(sys.argv[1]))
except UnsupportedModel as error:
    assert "Blocks has a vmap rule of its own" in str(error), error
else:
    raise AssertionError("admitted")
"""


def test_a_vmap_rule_that_is_not_torchs_is_refused(tmp_path: Path) -> None:
    """In a process of its own, since every model is refused by `vmap` where somebody's rule is loaded."""
    assert own_rule() is None
    support = str(Path(__file__).parents[2] / "support")
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([support, os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


class Scheduled(Two):
    """Has a public number that a loop sets."""

    scale = 1.0

    def between(self, h: Tensor) -> Tensor:
        return h * self.scale


@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_loop_sets_in_public_is_taken_over(engine: str, tmp_path: Path) -> None:
    run = training(Scheduled, engine, tmp_path)
    training_mode(run.model)
    rows = torch.randn(6, FEATURES, generator=torch.Generator().manual_seed(1)) / 100, torch.arange(6) % 2
    found = []
    for scale in (1.0, 0.0, 1.0):
        run.model.scale = scale  # type: ignore[assignment]
        sums = run.engine.clipped_sum(run.model, run.criterion, Chunk(*rows, None), CLIP)
        found.append(float(sums["first.weight"].double().norm()))
    assert found[0] == pytest.approx(found[2]) != 0
    assert found[1] == 0


def test_the_model_that_is_trained_sees_no_row(tmp_path: Path) -> None:
    class Seen(Two):
        def forward(self, x: Tensor) -> Tensor:
            self.last_rows = x.detach().clone()
            return super().forward(x)

    for engine in ENGINES:
        run = training(Seen, engine, tmp_path / engine)
        before = run.model.last_rows
        run.run(progress=False)
        assert run.model.last_rows is before


def test_twins_are_used_again_while_they_are_as_they_were() -> None:
    model, loss = Two(), nn.CrossEntropyLoss()
    twins = Twins(lambda *_: None)
    first = twins.of(model, loss)
    assert first.model is not model
    assert twins.look(model)
    assert twins.of(model, loss) is first
    assert twins.look(model)
    with torch.no_grad():
        model.first.weight += 1  # a release
    again = twins.of(model, loss)
    assert again is first
    assert torch.equal(first.model.get_parameter("first.weight"), model.first.weight)
    first.model.get_parameter("first.weight").data.mul_(2)  # a row
    assert not twins.look(model)
    assert twins.of(model, loss) is not first
    assert private_parameters(model).keys() == private_parameters(twins.of(model, loss).model).keys()


def test_a_twin_at_which_nobody_looked_is_not_used_again() -> None:
    """An error that ends a run, such as too little memory, ends the use of a twin before it is looked at."""
    model, loss = Two(), nn.CrossEntropyLoss()
    twins = Twins(lambda *_: None, followed=True)
    first = twins.of(model, loss)
    first.model.get_parameter("first.weight").data.mul_(2)  # a row, before the error
    again = twins.of(model, loss)
    assert again is not first
    assert torch.equal(again.model.get_parameter("first.weight"), model.first.weight)


class Reseeding(Two):
    """Rows of a kind seed torch's generator."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def between(self, h: Tensor) -> Tensor:
        return self.drop(h)  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        if is_long(x):
            torch.manual_seed(1)
        return super().forward(x)


@pytest.mark.parametrize("engine", ["reference", "exact"])
def test_a_row_that_seeds_the_generator_decides_no_random_number_of_others(engine: str, tmp_path: Path) -> None:
    """With other secret numbers the others come out otherwise, though a row before them seeds the generator."""
    run, found = training(Reseeding, engine, tmp_path), []
    training_mode(run.model)
    rows = torch.randn(20, FEATURES, generator=torch.Generator().manual_seed(1)), torch.arange(20) % 2
    rows[0][0] *= 50
    for seed in (3, 4):
        torch.manual_seed(seed)
        found.append(run.engine.clipped_sum(run.model, run.criterion, Chunk(*rows, None), CLIP)["last.weight"])
    assert float((found[0].double() - found[1]).norm()) > 1
