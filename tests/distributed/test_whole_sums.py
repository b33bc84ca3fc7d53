"""Sums in whole numbers: no order shows in them, and no unit moves them by more than their sensitivity."""

import math
from collections.abc import Mapping
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from discreet.clipping import BIT, ENGINES, Clip
from discreet.core.errors import PrivacyViolation
from discreet.core.release import ClippedSum
from discreet.distributed.ranks import Ranks
from discreet.distributed.whole_sums import FineGrid, WholeSums, shapes_of

CLIP = Clip(1.0, 2.0**-20)
SHAPES = {"a": (2, 3), "b": (5,)}

Chunk = Mapping[str, torch.Tensor]


def chunks_of(seed: int, count: int, dtype: torch.dtype) -> list[Chunk]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {name: torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for name, shape in SHAPES.items()}
        for _ in range(count)
    ]


def grid_of(clip: Clip = CLIP, largest: int = 100, chunks: int = 20, engine: str = "bookkeeping") -> FineGrid:
    return FineGrid.of(SHAPES, ENGINES[engine], clip, largest, chunks)


def total_of(grid: FineGrid, chunks: list[Chunk]) -> ClippedSum:
    sums = WholeSums(grid, Ranks())
    for one in chunks:
        sums.add(one)
    assert sums.unusable == 0
    return sums.total(ENGINES["bookkeeping"], CLIP, 100)


@given(st.integers(0, 2**20), st.integers(0, 20), st.sampled_from([torch.float32, torch.float64]), st.randoms())
def test_no_order_shows_and_the_total_is_the_exact_sum_of_what_was_rounded(
    seed: int, count: int, dtype: torch.dtype, random: object
) -> None:
    grid, chunks = grid_of(), chunks_of(seed, count, dtype)
    found = total_of(grid, chunks).tensors["share"]
    random.shuffle(chunks)  # type: ignore[attr-defined]
    assert np.array_equal(total_of(grid, chunks).tensors["share"], found)
    fine = Fraction(grid.fine)
    flat = [torch.cat([one[name].reshape(-1) for name in SHAPES]).tolist() for one in chunks]
    for place in range(11):
        exact = sum((round(Fraction(one[place]) / fine) for one in flat), 0) * fine
        nearest = Fraction(float(found[place]))
        assert nearest % Fraction(CLIP.grid) == 0
        assert abs(nearest - exact) <= Fraction(CLIP.grid) / 2


@settings(deadline=None)
@given(st.integers(0, 2**20), st.integers(1, 20))
def test_one_unit_moves_the_sum_by_no_more_than_its_sensitivity(seed: int, count: int) -> None:
    """Chunks on both sides differ by rounding of the engine everywhere, and by one unit's gradient in one of them."""
    grid, chunks = grid_of(), chunks_of(seed, count, torch.float64)
    generator = torch.Generator().manual_seed(seed + 1)
    unit = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in SHAPES.items()}
    length = math.sqrt(sum(float(part.square().sum()) for part in unit.values()))
    error = ENGINES["bookkeeping"].error
    assert error is not None
    others = []
    for place, one in enumerate(chunks):
        slip = {name: torch.randn(part.shape, generator=generator, dtype=torch.float64) for name, part in one.items()}
        size = math.sqrt(sum(float(part.square().sum()) for part in slip.values())) * 20  # 100 units in 20 chunks
        moved = {name: part + slip[name] * (2 * error * 100 / size) for name, part in one.items()}
        others.append({n: part + unit[n] / length for n, part in moved.items()} if place == 0 else moved)
    found, other = (total_of(grid, one).tensors["share"] for one in (chunks, others))
    assert float(np.linalg.norm(found - other)) <= grid.sensitivity
    assert grid.sensitivity <= 1 + 2 * error * 100 + CLIP.grid * math.sqrt(11) * (1 + 20 / 2**grid.fold) + 1e-12


def test_the_sensitivity_has_rounding_and_slack_and_exact_sums_have_neither() -> None:
    grid = grid_of()
    error = ENGINES["bookkeeping"].error
    assert error is not None
    assert grid.fold == 10  # 5 bits for 20 chunks and 6 more, but no more than 10
    assert grid.sensitivity >= 1 + 2 * error * 100 + (CLIP.grid + 20 * grid.fine) * math.sqrt(11)
    assert grid_of(engine="exact") == FineGrid(SHAPES, CLIP.grid, 20, 0, CLIP.sensitivity)


def test_the_fine_grid_leaves_room_above_the_largest_sum() -> None:
    for bits in range(10, 60):
        clip = Clip(1.0, 2.0**-bits)
        if bits < 52:
            assert 1000 / grid_of(clip, largest=1000).fine <= 2.0**62
        if bits > 53:
            with pytest.raises(PrivacyViolation, match="too small for a sum in whole numbers"):
                grid_of(clip, largest=1000)


def test_what_is_no_number_is_counted_and_left_out() -> None:
    sums = WholeSums(grid_of(), Ranks())
    (chunk,) = chunks_of(0, 1, torch.float32)
    chunk["a"][0, 0], chunk["b"][2] = float("nan"), float("inf")
    sums.add(chunk)
    assert sums.unusable == 2


def test_a_sum_is_taken_once_and_for_the_clip_it_was_formed_for() -> None:
    sums = WholeSums(grid_of(), Ranks())
    with pytest.raises(PrivacyViolation, match="another clip, engine or batch"):
        sums.total(ENGINES["bookkeeping"], CLIP, 101)
    sums = WholeSums(grid_of(), Ranks())
    sums.total(ENGINES["bookkeeping"], CLIP, 100)
    with pytest.raises(PrivacyViolation, match="asked for twice"):
        sums.total(ENGINES["bookkeeping"], CLIP, 100)


def test_a_clip_with_a_bit_has_one_more_coordinate() -> None:
    parameters = {"w": torch.zeros(2, 2)}
    assert shapes_of(parameters, CLIP) == {"w": (2, 2)}
    assert shapes_of(parameters, Clip(1.0, 2.0**-20, bit=0.1))[BIT] == (1,)
