"""The float slack holds for rows as they come in nature; those for which nothing was measured are taken alone."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from problems import tiny_training
from rounding_models import CLASSES, FEATURES, Asymmetry, Direction, Rows
from torch import Tensor, nn

from discreet.clipping import ENGINES, Clip, Engine, Units
from discreet.training import Training

COUNT = 12
LABELS = torch.arange(COUNT) % CLASSES
CLIP = Clip(1e-3, 2.0**-40)
LOSS = nn.CrossEntropyLoss()


def made(folder: Path, model: nn.Module, rows: Tensor, **options: object) -> Training:
    return tiny_training(folder, model=model, data=(rows, LABELS[: len(rows)]), **options)


def total(engine: Engine, model: nn.Module, rows: Tensor, clip: Clip = CLIP) -> dict[str, Tensor]:
    return engine.clipped_sum(model, LOSS, rows, LABELS[: len(rows)], clip)


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


def test_as_a_whole_chunk_such_rows_move_the_sum_by_more_than_the_clip_norm() -> None:
    rows = 1e12 * torch.randn(COUNT, FEATURES, generator=torch.Generator().manual_seed(1))
    assert most_moved(ENGINES["bookkeeping"], Asymmetry(), rows) > 1.2


def test_a_long_row_of_a_unit_counts_as_it_does_for_the_reference(tmp_path: Path) -> None:
    """Its squares are beyond single precision; a whole unit was left out for that."""
    rows = torch.randn(COUNT, FEATURES, generator=torch.Generator().manual_seed(2))
    rows[::2] *= 3e19
    model, units = nn.Linear(FEATURES, CLASSES), Units((2,) * (COUNT // 2))
    engine = made(tmp_path, model, rows).engine
    sums = [one.clipped_sum(model, LOSS, rows, LABELS, CLIP, units) for one in (engine, ENGINES["reference"])]
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
    assert "rounding moves" in training.rehearsal.line


def test_the_line_says_which_rows_are_taken_alone_and_many_of_them_are_worth_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = torch.rand(COUNT, FEATURES, generator=torch.Generator().manual_seed(5))
    with caplog.at_level(logging.WARNING, logger="discreet"):
        training = made(tmp_path / "a", nn.Linear(FEATURES, CLASSES), rows)
        assert caplog.text == ""
        made(tmp_path / "b", nn.Linear(FEATURES, CLASSES), 1e5 * rows)
    assert f"rows with a number beyond {training.rehearsal.reach:g} are taken one at a time" in training.rehearsal.line
    assert "100 % of the rows have a number beyond" in caplog.text
