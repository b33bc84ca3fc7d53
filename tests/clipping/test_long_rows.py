"""Long rows are taken by another engine, unit by unit; and sums of units whose rows cancel hold no rounding of them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from fuzz_modules import Own
from torch import Tensor, nn

from discreet.clipping import BIT, ENGINES, Chunk, Clip, Units
from discreet.clipping.engines.chunk_shape import in_fixed_rows
from discreet.clipping.engines.long_rows import LONG_TARGET, LongAlone, beyond

CLIP = Clip(0.5, 2.0**-30, bit=0.1)
LOSS = nn.MSELoss()


class Noted:
    """An engine, and how many rows it was given at each call."""

    def __init__(self, name: str) -> None:
        self.engine, self.rows = ENGINES[name].clipped_sum, []

    def __call__(self, model: nn.Module, criterion: Any, chunk: Chunk, clip: Clip) -> dict[str, Tensor]:
        self.rows.append(len(chunk.inputs))
        return self.engine(model, criterion, chunk, clip)


def problem(rows: int = 6) -> tuple[nn.Module, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
    return model, torch.randn(rows, 4, generator=generator), torch.randn(rows, 2, generator=generator)


def both(reach: float = 16.0) -> tuple[LongAlone, Noted, Noted]:
    together, alone = Noted("bookkeeping"), Noted("reference")
    return LongAlone(together, alone, reach), together, alone


def close(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return set(one) == set(other) and all(torch.allclose(one[n].double(), other[n], atol=1e-6) for n in other)


@pytest.mark.parametrize("value", [17.0, -17.0, 1e30, math.nan, math.inf])
def test_a_long_row_is_taken_by_the_other_engine(value: float) -> None:
    model, inputs, targets = problem()
    inputs[2, 1] = value
    engine, together, alone = both()
    found = engine(model, LOSS, Chunk(inputs, targets), CLIP)
    assert (together.rows, alone.rows) == ([5], [1])
    assert close(found, ENGINES["reference"].clipped_sum(model, LOSS, Chunk(inputs, targets), CLIP))
    assert BIT in found


def test_what_is_not_long_stays_together() -> None:
    model, inputs, targets = problem()
    inputs[0, 0], targets[1, 0] = 16.0, LONG_TARGET
    engine, together, alone = both()
    engine(model, LOSS, Chunk(inputs, targets), CLIP)
    assert (together.rows, alone.rows) == ([6], [])


def test_a_chunk_of_long_rows_and_one_with_a_long_target() -> None:
    model, inputs, targets = problem()
    engine, together, alone = both()
    assert close(
        engine(model, LOSS, Chunk(1e3 * inputs, targets), CLIP),
        ENGINES["reference"].clipped_sum(model, LOSS, Chunk(1e3 * inputs, targets), CLIP),
    )
    targets[3, 0] = 2 * LONG_TARGET
    engine(model, LOSS, Chunk(inputs, targets), CLIP)
    assert together.rows == [5]
    assert alone.rows[-1] == 1


def test_all_rows_of_a_unit_go_with_a_long_one() -> None:
    model, inputs, targets = problem()
    inputs[4, 0] = 100.0
    engine, together, alone = both()
    units = Units((2, 1, 3))
    found = engine(model, LOSS, Chunk(inputs, targets, units), CLIP)
    assert (together.rows, alone.rows) == ([3], [3])
    assert close(found, ENGINES["reference"].clipped_sum(model, LOSS, Chunk(inputs, targets, units), CLIP))


def test_padding_is_left_out_and_fixed_rows_go_inside() -> None:
    model, inputs, targets = problem()
    inputs[5] = 100.0
    wanted = ENGINES["reference"].clipped_sum(model, LOSS, Chunk(inputs[:5], targets[:5]), CLIP)
    engine, _, alone = both()
    assert close(engine(model, LOSS, Chunk(inputs, targets, Units((1,) * 6, padding=1)), CLIP), wanted)
    assert alone.rows == []
    together = Noted("bookkeeping")
    fixed = LongAlone(in_fixed_rows(together, 4), ENGINES["reference"].clipped_sum, 16.0)
    assert close(
        fixed(model, LOSS, Chunk(inputs, targets), CLIP),
        ENGINES["reference"].clipped_sum(model, LOSS, Chunk(inputs, targets), CLIP),
    )
    assert together.rows == [8]


def test_tokens_are_never_long() -> None:
    """They have no reach."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(1000, 2), nn.Flatten(), nn.Linear(6, 2))
    engine, together, alone = both(math.inf)
    engine(model, LOSS, Chunk(torch.full((5, 3), 999), problem(5)[2]), CLIP)
    assert (together.rows, alone.rows) == ([5], [])


@pytest.mark.parametrize("value", [17, -17, torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max])
def test_whole_numbers_that_a_model_computes_with_are_long_like_others(value: int) -> None:
    class Whole(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x.float())

    inputs, targets = torch.arange(24).view(6, 4) % 16, problem()[2]
    inputs[2, 1] = value
    engine, together, alone = both()
    engine(Whole(4, 2), LOSS, Chunk(inputs, targets), CLIP)
    assert (together.rows, alone.rows) == ([5], [1])


@pytest.mark.parametrize("kind", [torch.complex64, torch.uint8, torch.uint16, torch.int8])
def test_numbers_of_any_type_are_long(kind: torch.dtype) -> None:
    part = torch.zeros(3, 2, dtype=kind)
    part[1, 0] = -17j if kind.is_complex else 100
    assert beyond(part, 16.0).tolist() == [False, True, False]
    assert not beyond(part, 256.0).any()


def test_a_long_target_of_tokens_is_taken_alone() -> None:
    model, targets = nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(4, 2)), problem()[2]
    targets[3, 1] = 2 * LONG_TARGET
    engine, together, alone = both(math.inf)
    engine(model, LOSS, Chunk(torch.arange(12).view(6, 2) % 9, targets), CLIP)
    assert (together.rows, alone.rows) == ([5], [1])


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return sum(float((one[name].double() - other[name]).square().sum()) for name in other) ** 0.5


@pytest.mark.parametrize("model", [nn.Linear(8, 3), Own(8, 3)])
def test_scales_that_are_far_apart_do_not_shorten_gradients(model: nn.Module) -> None:
    """What a small scale makes of rounding counts where that scale is: it was 3 % of the clip norm for such a unit."""
    generator = torch.Generator().manual_seed(1)
    inputs, targets = 300 * torch.randn(6, 8, generator=generator), torch.randn(6, 3, generator=generator)
    inputs[:, 0] = 0.0
    scales = {name: torch.ones_like(part, dtype=torch.float64) for name, part in model.named_parameters()}
    for part in scales.values():
        if part.dim() == 2:
            part[:, 0] = 1e-5  # of what no row has
    clip = Clip(1.0, 2.0**-30, scales=scales)
    sums = [
        ENGINES[name].clipped_sum(model, LOSS, Chunk(inputs, targets, Units((2, 2, 2))), clip)
        for name in ("bookkeeping", "reference")
    ]
    assert apart(*sums) < 1e-4


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_rows_of_a_unit_that_cancel_leave_no_rounding(engine: str) -> None:
    """Beside a unit whose gradient is long, so that sums are of numbers that do not cancel to the bit."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Conv1d(3, 4, 2, bias=False)
    inputs = torch.randn(5, 3, 9, generator=torch.Generator().manual_seed(2))
    inputs[4], targets = -1e4 * inputs[3], torch.tensor([0.3, 1.7, 0.9, 1e4, 1.0])
    chunk, clip = Chunk(inputs, targets, Units((1, 2, 2))), Clip(1.0, 2.0**-40)
    loss = lambda output, target: (output * target.view(-1, 1, 1)).sum()  # noqa: E731
    sums = [ENGINES[name].clipped_sum(model, loss, chunk, clip) for name in (engine, "reference")]
    assert apart(*sums) < 1e-6
