"""The float slack holds for rows as they come in nature; those for which nothing was measured are taken alone."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from problems import tiny_plan, tiny_training
from rounding_models import CLASSES, FEATURES, Asymmetry, Direction, Rows, Stamps, Waves
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Engine, Units
from discreet.training import EngineOptions, Training

COUNT = 12
LABELS = torch.arange(COUNT) % CLASSES
CLIP = Clip(1e-3, 2.0**-40)
LOSS = nn.CrossEntropyLoss()


def made(folder: Path, model: nn.Module, rows: Tensor, **options: object) -> Training:
    return tiny_training(folder, model=model, data=(rows, LABELS[: len(rows)]), **options)


def total(engine: Engine, model: nn.Module, rows: Tensor, clip: Clip = CLIP) -> dict[str, Tensor]:
    return engine.clipped_sum(model, LOSS, Chunk(rows, LABELS[: len(rows)]), clip)


def apart(one: dict[str, Tensor], other: dict[str, Tensor], clip: Clip = CLIP) -> float:
    """The distance of two sums, in clip norms."""
    return sum(float((one[name].double() - other[name]).square().sum()) for name in other) ** 0.5 / clip.norm


def most_moved(engine: Engine, model: nn.Module, rows: Tensor) -> float:
    """How far the last row moves the sum at most, in batches of 2 to 12."""
    sums = [total(engine, model, rows[:count]) for count in range(1, COUNT + 1)]
    return max(apart(one, other) for one, other in itertools.pairwise(sums))


@pytest.mark.parametrize(
    ("engine", "size"), [("bookkeeping", 1e6), ("bookkeeping", 1e12), ("ghost", 1e12), ("vmap", 1e19)]
)
def test_a_row_that_leaves_does_not_change_the_branches_of_other_long_rows(
    tmp_path: Path, engine: str, size: float
) -> None:
    rows = size * torch.randn(COUNT, FEATURES, generator=torch.Generator().manual_seed(1))
    model = Asymmetry()
    training = made(tmp_path, model, rows, engine=engine)
    assert most_moved(training.engine, model, rows) <= 1 + 1e-6


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap"])
@pytest.mark.parametrize("kind", ["time stamps", "the least of a type", "complex"])
def test_long_rows_of_whole_and_complex_numbers_are_taken_alone(tmp_path: Path, engine: str, kind: str) -> None:
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(COUNT, FEATURES, 2, generator=generator)
    model: nn.Module = Waves() if kind == "complex" else Stamps()
    rows = torch.view_as_complex(1e12 * drawn) if kind == "complex" else (1.7e9 + 1e7 * drawn[..., 0]).long()
    if kind == "the least of a type":
        rows = torch.where(drawn[..., 0] > 0, torch.iinfo(torch.int64).min, rows << 32)
    training = made(tmp_path, model, rows, engine=engine)
    assert math.isfinite(training.preflight.reach)
    assert most_moved(training.engine, model, rows) <= 1 + 1e-6


class Tokens(nn.Module):
    """A mean over embedded tokens, which are looked up in one way or another; or the number of each as well."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.table = how, nn.Linear(50, 8) if how == "one-hot" else nn.Embedding(50, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        mask = (x != 0).unsqueeze(2)
        found = self.table(F.one_hot(x % 50, 50).float() if self.how == "one-hot" else x % 50)
        numbers = x[:, :1] / 50 if self.how == "numbers too" else 0.0
        output: Tensor = self.head((found * mask.float()).sum(1) / mask.sum(1).clamp(1))
        return output + numbers


@pytest.mark.parametrize(("how", "kind"), [("table", torch.int64), ("one-hot", torch.int64), ("table", torch.bool)])
def test_tokens_have_no_reach(tmp_path: Path, how: str, kind: torch.dtype) -> None:
    rows = torch.randint(0, 5000, (COUNT, 8), generator=torch.Generator().manual_seed(6))
    model = Stamps() if kind == torch.bool else Tokens(how)
    rows = (rows[:, :1].expand(-1, FEATURES) > 2500) if kind == torch.bool else rows
    assert made(tmp_path, model, rows).preflight.reach == math.inf


def test_tokens_that_are_computed_with_have_one(tmp_path: Path) -> None:
    rows = torch.randint(0, 5000, (COUNT, 8), generator=torch.Generator().manual_seed(6))
    assert made(tmp_path, Tokens("numbers too"), rows, engine="bookkeeping").preflight.reach <= 4096


def test_all_bytes_are_within_reach(tmp_path: Path) -> None:
    rows = torch.randint(0, 256, (COUNT, FEATURES), generator=torch.Generator().manual_seed(7)).to(torch.uint8)
    model = nn.Sequential(Levels(), nn.Linear(FEATURES, CLASSES))
    engine = EngineOptions("bookkeeping", features_once=False)
    assert made(tmp_path, model, rows, engine=engine).preflight.reach == math.inf


class Levels(nn.Module):
    """Bytes as numbers from 0 to 1."""

    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


def test_as_a_whole_chunk_such_rows_move_the_sum_by_more_than_the_clip_norm() -> None:
    rows = 1e12 * torch.randn(COUNT, FEATURES, generator=torch.Generator().manual_seed(1))
    assert most_moved(ENGINES["bookkeeping"], Asymmetry(), rows) > 1.2


def test_a_long_row_of_a_unit_counts_as_it_does_for_the_reference(tmp_path: Path) -> None:
    """Its squares are beyond single precision; a whole unit was left out for that."""
    rows = torch.randn(COUNT, FEATURES, generator=torch.Generator().manual_seed(2))
    rows[::2] *= 3e19
    model, units = nn.Linear(FEATURES, CLASSES), Units((2,) * (COUNT // 2))
    engine = made(tmp_path, model, rows).engine
    sums = [one.clipped_sum(model, LOSS, Chunk(rows, LABELS, units), CLIP) for one in (engine, ENGINES["reference"])]
    assert apart(*sums) < 1e-4


def standardised() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(FEATURES), nn.Linear(FEATURES, CLASSES))


NATURAL: dict[str, Callable[[Tensor], Tensor]] = {
    "black": torch.zeros_like,
    "grey": lambda drawn: drawn[:, :1].expand(drawn.shape).clone(),
    "levels": lambda drawn: (255 * drawn).floor(),
    "levels of grey": lambda drawn: (255 * drawn[:, :1]).floor().expand(drawn.shape).clone(),
    "offset": lambda drawn: 1000 + drawn,
    "small offset": lambda drawn: 1 + 1e-3 * drawn,
    "sparse": lambda drawn: drawn * (drawn > 0.95),
    "faint": lambda drawn: 1e-3 * drawn,
}


CASES = [(Rows, kind) for kind in NATURAL] + [(standardised, kind) for kind in ("levels of grey", "offset")]


@pytest.mark.parametrize(("build", "kind"), CASES)
def test_the_declared_slack_holds_for_natural_rows(tmp_path: Path, build: Callable[[], nn.Module], kind: str) -> None:
    torch.manual_seed(3)
    model = build()
    rows = NATURAL[kind](torch.rand(COUNT, FEATURES, generator=torch.Generator().manual_seed(3)))
    engine = made(tmp_path, model, rows, engine="bookkeeping").engine
    assert engine.error is not None
    wanted = total(ENGINES["reference"], model, rows)
    assert apart(total(engine, model, rows), wanted) / COUNT <= engine.error


def test_a_model_that_rounding_decides_for_constant_rows_is_trained_by_exact(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = torch.rand(COUNT, FEATURES, generator=torch.Generator().manual_seed(4))
    with caplog.at_level(logging.WARNING, logger="discreet"):
        training = made(tmp_path, Direction(), rows)
    assert training.engine.name == "exact"
    assert "engine 'exact' is used, which is slow" in caplog.text
    assert "rounding moves" in training.preflight.line


def test_the_line_says_which_rows_are_taken_alone_and_many_of_them_are_worth_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = torch.rand(COUNT, FEATURES, generator=torch.Generator().manual_seed(5))
    with caplog.at_level(logging.WARNING, logger="discreet"):
        training = made(tmp_path / "a", nn.Linear(FEATURES, CLASSES), rows)
        assert caplog.text == ""
        made(tmp_path / "b", nn.Linear(FEATURES, CLASSES), 1e5 * rows)
    assert f"rows with a number beyond {training.preflight.reach:g} are taken one at a time" in training.preflight.line
    assert "100 % of the rows have a number beyond" in caplog.text


class Divided(nn.Module):
    """A layer divided by zero where the first number of a row is not positive: such rows have no finite gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) / (x[:, :1] > 0)


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost", "vmap"])
def test_rows_without_a_finite_gradient_have_no_bit_in_any_kind_of_rows(tmp_path: Path, engine: str) -> None:
    plan = tiny_plan(clip_norm=None, clipping={"kind": "adaptive", "initial": 1.0, "bit_multiplier": 5.0})
    training = made(tmp_path, Divided(), torch.rand(COUNT, FEATURES), plan=plan, engine=engine)
    bits = training.preflight.engine.float_bits
    assert bits is not None
    assert bits > 12
