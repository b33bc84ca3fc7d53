"""Chunks that are filled up, and models in reduced precision: the same sums, as far as they can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import PROBLEMS, criterion, typical_norm
from torch import Tensor, nn

from discreet.clipping import ENGINES, Chunk, Clip, Units
from discreet.clipping.engines.chunk_shape import in_fixed_rows, under_autocast
from discreet.clipping.rules import base, linear
from discreet.core.errors import InputError

LOSS, CLIP = nn.CrossEntropyLoss(), Clip(0.5, 2.0**-30)
FAST = ["bookkeeping", "ghost", "vmap"]


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3))


def rows(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, 4, generator=generator, dtype=torch.float64) * 3, torch.arange(count) % 3


def flat(sums: dict[str, Tensor]) -> Tensor:
    return torch.cat([part.double().flatten() for part in sums.values()])


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=5), by_unit=st.booleans(), room=st.integers(1, 20))
def test_filling_up_changes_nothing(engine: str, sizes: list[int], by_unit: bool, room: int) -> None:
    sizes = sizes if by_unit else [1] * len(sizes)
    units = Units(tuple(sizes)) if by_unit else None
    inputs, targets = rows(sum(sizes))
    arguments = network().double(), LOSS, Chunk(inputs, targets, units), CLIP
    found = flat(in_fixed_rows(ENGINES[engine].clipped_sum, room)(*arguments))
    wanted = flat(ENGINES[engine].clipped_sum(*arguments))
    if engine in ("reference", "exact"):
        assert torch.equal(found, wanted)
    assert float((found - wanted).norm()) <= 1e-12


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(draw=st.data())
def test_filling_up_changes_nothing_by_any_rule(engine: str, name: str, draw: st.DataObject) -> None:
    model, inputs, targets = PROBLEMS[name](draw.draw).make(3, torch.float64, draw.draw(st.integers(0, 99)))
    if any(getattr(module, "scale_grad_by_freq", False) for module in model.modules()):
        return
    clip = Clip(0.5 * typical_norm(model, inputs, targets), 2.0**-30)
    function = ENGINES[engine].clipped_sum
    found = in_fixed_rows(function, 8)(model, criterion, Chunk(inputs, targets), clip)
    wanted = function(model, criterion, Chunk(inputs, targets), clip)
    assert float((flat(found) - flat(wanted)).norm()) <= 1e-10 * clip.norm


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("engine", FAST)
def test_what_fills_a_chunk_up_counts_for_nothing_also_if_it_is_not_finite(engine: str, bad: int) -> None:
    """The first row is the one that is copied."""
    inputs, targets = rows(3)
    keep = [i for i in range(3) if i != bad]
    wanted = flat(ENGINES[engine].clipped_sum(network().double(), LOSS, Chunk(inputs[keep], targets[keep]), CLIP))
    inputs[bad] = float("nan")
    found = flat(in_fixed_rows(ENGINES[engine].clipped_sum, 7)(network().double(), LOSS, Chunk(inputs, targets), CLIP))
    assert float((found - wanted).norm()) <= 1e-12


@pytest.mark.parametrize("engine", FAST)
def test_padding_that_counts_would_be_found(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Units, "__post_init__", lambda self: object.__setattr__(self, "padding", 0))
    inputs, targets = rows(3)
    found = flat(in_fixed_rows(ENGINES[engine].clipped_sum, 7)(network().double(), LOSS, Chunk(inputs, targets), CLIP))
    wanted = flat(ENGINES[engine].clipped_sum(network().double(), LOSS, Chunk(inputs, targets), CLIP))
    assert float((found - wanted).norm()) > 0.1 * CLIP.norm


@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_the_model_sees_one_shape(engine: str) -> None:
    seen = set()
    model = network().double()
    model.register_forward_pre_hook(lambda _, args: seen.add(args[0].shape))
    function = in_fixed_rows(ENGINES[engine].clipped_sum, 5)
    for count in (1, 3, 5):
        function(model, LOSS, Chunk(*rows(count)), CLIP)
    assert seen == {(5, 4)}
    function(model, LOSS, Chunk(*rows(6)), CLIP)
    assert seen == {(5, 4), (10, 4)}


def test_a_frozen_part_that_is_compiled_is_compiled_once() -> None:
    compiled = []

    def backend(graph: Any, _: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    def passes(shaped: Callable[..., Any]) -> int:
        torch._dynamo.reset()
        compiled.clear()
        frozen = nn.Sequential(nn.Linear(4, 6), nn.Tanh()).double().requires_grad_(False)
        model = nn.Sequential(torch.compile(frozen, backend=backend, dynamic=False), nn.Linear(6, 3).double())
        for count in (2, 3, 5):
            shaped(model, LOSS, Chunk(*rows(count)), CLIP)
        return len(compiled)

    function = ENGINES["bookkeeping"].clipped_sum
    assert passes(in_fixed_rows(function, 5)) == 1
    assert passes(function) == 3


def test_more_padding_than_units_is_refused() -> None:
    with pytest.raises(InputError, match="3 units cannot be padding among 2"):
        Units((1, 1), 3)


def half(dtype: torch.dtype, rows: int, scale: float) -> tuple[nn.Module, Tensor, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.LayerNorm(48), nn.Linear(48, 3)).to(dtype)
        return model, (torch.randn(rows, 64) * scale).to(dtype), torch.arange(rows) % 3


def bound(engine: str, dtype: torch.dtype, autocast: bool) -> float:
    """By how much the longest of some clipped gradients is too long, relative to the clip norm."""
    function = ENGINES[engine].clipped_sum
    function = under_autocast(function, torch.bfloat16) if autocast else function
    model, inputs, targets = half(dtype, 8, 5.0)
    return max(
        float(flat(function(model, LOSS, Chunk(inputs[i : i + 1], targets[i : i + 1]), Clip(0.1, 2.0**-40))).norm())
        / 0.1
        - 1
        for i in range(8)
    )


HALF = [(torch.bfloat16, False), (torch.float16, False), (torch.float32, True)]
SOME = [
    (engine, *case)
    for engine in ("bookkeeping", "vmap", "reference")
    for case in HALF
    if engine != "vmap" or not case[1]
]
"""On processors torch cannot vectorise a layer norm under autocast."""


@pytest.mark.parametrize(("engine", "dtype", "autocast"), SOME, ids=str)
def test_gradients_in_reduced_precision_are_not_too_long(engine: str, dtype: torch.dtype, autocast: bool) -> None:
    assert bound(engine, dtype, autocast) <= 1e-6


@pytest.mark.parametrize(("dtype", "autocast"), HALF, ids=str)
def test_a_norm_in_half_precision_would_be_caught(
    dtype: torch.dtype, autocast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def squared_norms(rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), -1).bfloat16().square().sum(1).double()

    for module in (base, linear):
        monkeypatch.setattr(module, "squared_norms", squared_norms)
    assert bound("bookkeeping", dtype, autocast) > 1e-5


@pytest.mark.parametrize(("engine", "dtype", "autocast"), SOME[:-3], ids=str)
def test_sums_of_models_in_reduced_precision_are_wide(engine: str, dtype: torch.dtype, autocast: bool) -> None:
    """A thousand equal terms would stop to add up in half precision."""
    function = ENGINES[engine].clipped_sum
    function = under_autocast(function, torch.bfloat16) if autocast else function
    model, inputs, targets = half(dtype, 1, 1.0)
    one = flat(function(model, LOSS, Chunk(inputs, targets), CLIP))
    many = function(model, LOSS, Chunk(inputs.expand(1000, -1), targets.expand(1000)), CLIP)
    assert all(part.dtype in (torch.float32, torch.float64) for part in many.values())
    assert float((flat(many) / 1000 - one).norm()) <= 0.02 * float(one.norm())
