"""Every rule, in drawn shapes, against one backward pass per example."""

from __future__ import annotations

import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from layers import PROBLEMS, criterion, difference, typical_norm

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.rules import conv

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_the_sum_is_that_of_the_reference(name: str, dtype: torch.dtype, data: st.DataObject) -> None:
    problem = PROBLEMS[name](data.draw)
    rows, seed = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 99))
    model, inputs, targets = problem.make(rows, dtype, seed)
    norm = typical_norm(model, inputs, targets)
    for clip_norm in (norm, 0.1 * norm):
        assert difference("bookkeeping", model, inputs, targets, clip_norm) <= TOLERANCE[dtype]


@pytest.mark.parametrize("way", ["windows", "calls", "gram"])
@pytest.mark.parametrize("name", ["conv", "transposed conv"])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_convolutions_agree_in_all_three_ways(name: str, way: str, data: st.DataObject) -> None:
    costs = {"windows": (0, 0, 10**9), "calls": (10**9, 0, 0), "gram": (0, 10**9, 0)}[way]
    problem = PROBLEMS[name](data.draw)
    model, inputs, targets = problem.make(data.draw(st.integers(1, 4)), torch.float64, data.draw(st.integers(0, 99)))
    with pytest.MonkeyPatch.context() as patch:
        for constant, cost in zip(("_WINDOW", "_KEPT", "_CALL"), costs, strict=True):
            patch.setattr(conv, constant, cost)
        seen = []
        real = conv.Convolution.squares
        patch.setattr(conv.Convolution, "squares", lambda self, own: seen.append(self._way) or real(self, own))
        norm = typical_norm(model, inputs, targets)
        assert difference("bookkeeping", model, inputs, targets, 0.3 * norm) <= 1e-10
        assert set(seen) <= {way, "windows"}
    event(seen[0])


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(data=st.data())
def test_chunks_make_no_difference(name: str, data: st.DataObject) -> None:
    problem = PROBLEMS[name](data.draw)
    model, inputs, targets = problem.make(6, torch.float64, data.draw(st.integers(0, 99)))
    clip = Clip(0.5 * typical_norm(model, inputs, targets), 2.0**-30)
    function = ENGINES["bookkeeping"].clipped_sum
    whole = function(model, criterion, Chunk(inputs, targets), clip)
    parts = [
        function(model, criterion, Chunk(x, y), clip) for x, y in zip(inputs.split(4), targets.split(4), strict=True)
    ]
    for key, value in whole.items():
        assert float((value - sum(part[key] for part in parts)).norm()) <= 1e-10 * 6 * clip.norm


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_example_moves_the_sum_by_more_than_the_clip_norm(name: str, data: st.DataObject) -> None:
    problem = PROBLEMS[name](data.draw)
    model, inputs, targets = problem.make(5, torch.float64, data.draw(st.integers(0, 99)))
    clip = Clip(0.3 * typical_norm(model, inputs, targets), 2.0**-30)
    function = ENGINES["bookkeeping"].clipped_sum
    whole = function(model, criterion, Chunk(inputs, targets), clip)
    for row in range(5):
        keep = [i for i in range(5) if i != row]
        rest = function(model, criterion, Chunk(inputs[keep], targets[keep]), clip)
        moved = sum(float((whole[key] - rest[key]).square().sum()) for key in whole) ** 0.5
        assert moved <= clip.norm * (1 + 1e-10)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(data=st.data())
def test_an_example_that_is_not_finite_leaves_the_others_alone(name: str, value: float, data: st.DataObject) -> None:
    problem = PROBLEMS[name](data.draw)
    model, inputs, targets = problem.make(4, torch.float32, data.draw(st.integers(0, 99)))
    clip = Clip(0.5 * typical_norm(model, inputs, targets), 2.0**-30)
    function = ENGINES["bookkeeping"].clipped_sum
    rest = function(model, criterion, Chunk(inputs[[0, 1, 3]], targets[[0, 1, 3]]), clip)
    if problem.tokens:
        targets[2] = value
    else:
        inputs[2] = value
    whole = function(model, criterion, Chunk(inputs, targets), clip)
    moved = sum(float((whole[key] - rest[key]).square().sum()) for key in whole) ** 0.5
    assert moved <= clip.norm * (1 + 1e-5)


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=1, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_example_at_all_is_a_sum_of_zero(name: str, data: st.DataObject) -> None:
    model, inputs, targets = PROBLEMS[name](data.draw).make(1, torch.float32, 0)
    sums = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(inputs[:0], targets[:0]), Clip(1.0, 2.0**-30))
    for key, parameter in model.named_parameters():
        assert sums[key].shape == parameter.shape
        assert not sums[key].any()
