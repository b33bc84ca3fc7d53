"""Every engine and rule with every way to clip, against a definition written out here, in drawn shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from fractions import Fraction
from unittest import mock

import pytest
import torch
from clips import CLIPS, GRID, apart, contributions, length
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import PROBLEMS, criterion, typical_norm
from promises import exactly, squared_norm, units_of
from torch import Tensor, nn

from discreet.clipping import BIT, ENGINES, Chunk, Clip, Group, Units, private_parameters
from discreet.clipping.engines import bookkeeping
from discreet.clipping.factor import clipped
from discreet.clipping.rules import base, embedding, linear
from discreet.clipping.rules.products import gram

NOT_BY_VMAP = ("embedding bag", "weighed bag", "recurrent", "cells", "bilinear", "without a rule")
TOLERANCE = {"bookkeeping": 1e-9, "ghost": 1e-9, "vmap": 1e-9, "reference": 1e-12, "exact": 1e-5}
"""Relative to rows x spread, in double precision; `exact` cuts to the grid."""


def by_definition(model: nn.Module, inputs: Tensor, targets: Tensor, clip: Clip) -> list[dict[str, Tensor]]:
    """What each row adds to the sum."""
    parameters = private_parameters(model)
    found = []
    for i in range(len(inputs)):
        loss = criterion(model(inputs[i : i + 1]), targets[i : i + 1])
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        rows = {
            name: torch.zeros_like(parameter) if gradient is None else gradient
            for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True)
        }
        found.append(contributions(rows, clip))
    return found


def added(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}


@pytest.mark.parametrize("way", CLIPS)
@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_engine_gives_the_defined_sum(name: str, way: str, data: st.DataObject) -> None:
    problem = PROBLEMS[name](data.draw)
    model, inputs, targets = problem.make(data.draw(st.integers(1, 4)), torch.float64, data.draw(st.integers(0, 99)))
    clip = CLIPS[way](model, typical_norm(model, inputs, targets))
    parts = by_definition(model, inputs, targets, clip)
    wanted = added(parts)
    assert max(length(part) for part in parts) <= clip.sensitivity * (1 + 1e-12)
    for key, engine in ENGINES.items():
        if key == "vmap" and name in NOT_BY_VMAP:
            continue  # torch.func cannot run all of these modules
        found = engine.clipped_sum(model, criterion, Chunk(inputs, targets), clip)
        assert set(found) == set(wanted)
        assert apart(found, wanted) <= TOLERANCE[key] * len(inputs) * clip.spread


@contextmanager
def without_rounding() -> Iterator[None]:
    """Norms as they are measured, not enlarged by the rounding of what is added up."""
    homes = (bookkeeping, linear, embedding, gram)
    with ExitStack() as stack:
        for home in homes:
            stack.enter_context(mock.patch.object(home, "with_rounding", lambda squares, *_: squares))
        yield


@pytest.mark.parametrize("size", [1.0, 1e-35, 1e-60])
@pytest.mark.parametrize("way", ["ellipsoid", "box"])
@pytest.mark.parametrize("name", ["linear", "conv", "tied"])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(data=st.data())
def test_scales_within_and_beyond_single_precision_give_the_same_sum(
    name: str, way: str, size: float, data: st.DataObject
) -> None:
    problem = PROBLEMS[name](data.draw)
    model, inputs, targets = problem.make(3, torch.float32, data.draw(st.integers(0, 99)))
    clip = CLIPS[way](model, typical_norm(model, inputs, targets))
    assert clip.scales is not None
    clip = replace(clip, scales={key: size * scale for key, scale in clip.scales.items()})
    chunk = Chunk(inputs, targets)
    wanted = ENGINES["reference"].clipped_sum(model, criterion, chunk, clip)
    for key in ("bookkeeping", "ghost"):
        with without_rounding():
            found = ENGINES[key].clipped_sum(model, criterion, chunk, clip)
        assert apart(found, wanted) <= 1e-5 * len(inputs) * clip.spread


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@pytest.mark.parametrize("way", ["ellipsoid", "box"])
@pytest.mark.parametrize("name", ["linear", "conv", "tied"])
@settings(max_examples=5, deadline=None, derandomize=True)
@given(data=st.data())
def test_rounding_in_a_norm_makes_a_row_shorter_and_changes_nothing_else(
    name: str, way: str, engine: str, data: st.DataObject
) -> None:
    """By less than a thousandth, also where scales differ much."""
    model, inputs, targets = PROBLEMS[name](data.draw).make(3, torch.float32, data.draw(st.integers(0, 99)))
    clip = CLIPS[way](model, typical_norm(model, inputs, targets))
    for row in Chunk(inputs, targets).one_by_one():
        found = ENGINES[engine].clipped_sum(model, criterion, row, clip)
        with without_rounding():
            plain = ENGINES[engine].clipped_sum(model, criterion, row, clip)
        if not length(plain):
            assert not length(found)
            continue
        share = length(found) / length(plain)
        assert 1 - 1e-3 <= share <= 1 + 1e-6
        assert apart(found, {key: share * part for key, part in plain.items()}) <= 1e-6 * length(plain)


@pytest.mark.parametrize("way", CLIPS)
@pytest.mark.parametrize("name", ["linear", "conv", "tied", "used twice"])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_example_moves_a_sum_by_more_than_the_sensitivity(name: str, way: str, data: st.DataObject) -> None:
    problem = PROBLEMS[name](data.draw)
    model, inputs, targets = problem.make(4, torch.float64, data.draw(st.integers(0, 99)))
    clip = CLIPS[way](model, 0.5 * typical_norm(model, inputs, targets))
    function = ENGINES["bookkeeping"].clipped_sum
    whole = function(model, criterion, Chunk(inputs, targets), clip)
    for row in range(4):
        keep = [i for i in range(4) if i != row]
        moved = apart(whole, function(model, criterion, Chunk(inputs[keep], targets[keep]), clip))
        assert moved <= clip.sensitivity * (1 + 1e-9)


@pytest.mark.parametrize("way", CLIPS)
def test_exact_sums_are_whole_numbers_in_any_order_and_within_the_sensitivity(way: str) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    torch.manual_seed(5)
    inputs, targets = torch.randn(5, 4) * 3, torch.randn(5)
    clip = CLIPS[way](model, typical_norm(model, inputs, targets))

    def summed(rows: list[int]) -> list[int]:
        sums = ENGINES["exact"].clipped_sum(model, criterion, Chunk(inputs[rows], targets[rows]), clip)
        return units_of({name: tensor.numpy() for name, tensor in sums.items()}, GRID)

    whole = summed([0, 1, 2, 3, 4])
    assert summed([3, 1, 4, 0, 2]) == whole
    alone = [summed([row]) for row in range(5)]
    assert [sum(units) for units in zip(*alone, strict=True)] == whole
    for units in alone:
        assert sum(unit**2 for unit in units) <= (exactly(clip.sensitivity) / exactly(GRID)) ** 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", CLIPS)
def test_an_example_that_is_not_finite_adds_nothing_not_even_a_bit(way: str, engine: str, value: float) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    torch.manual_seed(5)
    inputs, targets = torch.randn(4, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    clip = CLIPS[way](model, typical_norm(model, inputs, targets))
    rest = ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs[:3], targets[:3]), clip)
    targets[3] = value
    whole = ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets), clip)
    assert apart(whole, rest) <= 1e-9 * clip.spread


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("way", CLIPS)
def test_units_are_clipped_as_a_whole(way: str, engine: str) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    torch.manual_seed(5)
    inputs, targets = torch.randn(6, 4, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    clip = CLIPS[way](model, 0.5 * typical_norm(model, inputs, targets))
    parameters, start, parts = private_parameters(model), 0, []
    for size in (1, 3, 2):
        losses = [criterion(model(inputs[i : i + 1]), targets[i : i + 1]) for i in range(start, start + size)]
        gradients = torch.autograd.grad(torch.stack(losses).mean(), list(parameters.values()))
        parts.append(contributions(dict(zip(parameters, gradients, strict=True)), clip))
        start += size
    found = ENGINES[engine].clipped_sum(model, criterion, Chunk(inputs, targets, Units((1, 3, 2))), clip)
    assert apart(found, added(parts)) <= TOLERANCE[engine] * 3 * clip.spread


@pytest.mark.parametrize("way", CLIPS)
def test_no_example_at_all_is_a_sum_of_zero(way: str) -> None:
    model = nn.Linear(4, 2)
    clip = CLIPS[way](model, 1.0)
    sums = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(torch.zeros(0, 4), torch.zeros(0)), clip)
    assert set(sums) == {*dict(model.named_parameters()), *([BIT] if clip.bit else [])}
    assert not any(bool(tensor.any()) for tensor in sums.values())


@pytest.mark.parametrize("way", ["ellipsoid", "box", "by parameter"])
def test_blocks_of_one_example_make_no_difference(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    torch.manual_seed(5)
    inputs, targets = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    clip = CLIPS[way](model, typical_norm(model, inputs, targets))
    function = ENGINES["bookkeeping"].clipped_sum
    whole = function(model, criterion, Chunk(inputs, targets), clip)
    monkeypatch.setattr(base, "BUDGET", 1)
    assert apart(function(model, criterion, Chunk(inputs, targets), clip), whole) <= 1e-12 * clip.spread


def rows_of(vector: list[float]) -> dict[str, Tensor]:
    """One example's gradient for two parameters of two numbers each."""
    values = torch.tensor(vector, dtype=torch.float64)
    return {"a": values[None, :2], "b": values[None, 2:]}


def square(rows: dict[str, Tensor], clip: Clip) -> Fraction:
    return squared_norm({name: row.numpy() for name, row in clipped(rows, clip).items()})


SIZES = st.floats(min_value=1e-12, max_value=1e12)
NUMBERS = st.lists(st.floats(min_value=-1e15, max_value=1e15), min_size=4, max_size=4)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(numbers=NUMBERS, sizes=st.lists(SIZES, min_size=4, max_size=4), norm=SIZES, other=SIZES)
def test_no_gradient_adds_more_than_the_sensitivity_and_some_gradient_adds_all_of_it(
    numbers: list[float], sizes: list[float], norm: float, other: float
) -> None:
    """In rational arithmetic, for gradients at and around every edge of what is clipped."""
    scales = {name: row[0] for name, row in rows_of(sizes).items()}
    groups = (Group(norm, frozenset("a")), Group(other, frozenset("b")))
    clips = {
        "groups": Clip.grouped(groups, GRID),
        "automatic": Clip(norm, GRID, gamma=other),
        "bit": Clip(norm, GRID, bit=other),
        "ellipsoid": Clip(norm, GRID, scales=scales),
        "box": Clip.boxed(scales, GRID),
    }
    huge = [1e24 * max(1.0, norm, other) * max(1.0, size) for size in sizes]
    edge = [norm * share * size / 2 for share, size in zip((1, 1 - 2**-40, 1 + 2**-40, 1), sizes, strict=True)]
    for way, clip in clips.items():
        bound = exactly(clip.sensitivity) ** 2
        for gradient in (numbers, edge, [-size for size in sizes], huge):
            assert square(rows_of(gradient), clip) <= bound
        assert square(rows_of(huge), clip) >= bound * Fraction(1 - 1e-9), way


class Ratio(nn.Module):
    """Divides by its input and has no rule: at a zero its gradient is not finite."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale / x


@pytest.mark.parametrize("budget", [1, 2**28])
@pytest.mark.parametrize("way", CLIPS)
def test_what_is_not_finite_adds_nothing_also_where_gradients_are_formed_again(
    way: str, budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the decision, from what is blank by then: zero over zero."""
    monkeypatch.setattr(base, "BUDGET", budget)
    model, inputs = nn.Sequential(Ratio(), nn.Linear(4, 2).double()), torch.rand(3, 4, dtype=torch.float64) + 0.5
    targets, clip = torch.rand(3, dtype=torch.float64), CLIPS[way](model, 0.5)
    wanted = ENGINES["reference"].clipped_sum(model, criterion, Chunk(inputs[:2], targets[:2]), clip)
    inputs[2] = 0.0
    found = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(inputs, targets), clip)
    assert apart(found, wanted) <= 1e-9 * clip.spread
