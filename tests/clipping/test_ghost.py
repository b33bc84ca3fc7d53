"""The engine `ghost`: its sum is that of the reference, whatever is not finite, shared or frozen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from clips import CLIPS
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import PROBLEMS, criterion, difference, typical_norm
from six_rows import LABELS, apart, data, dropped, network, spied, sums
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from discreet.clipping import ENGINES, Chunk, Clip, Units
from discreet.clipping.capture import backward
from discreet.clipping.digests import state_digests
from discreet.clipping.engines import norms
from discreet.core.errors import UnsupportedModel

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
"""In single precision less than one pass keeps: where a gradient cancels, two passes are left with different rests."""


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(draw=st.data())
def test_the_sum_is_that_of_the_reference(name: str, dtype: torch.dtype, draw: st.DataObject) -> None:
    model, inputs, targets = PROBLEMS[name](draw.draw).make(
        draw.draw(st.integers(1, 5)), dtype, draw.draw(st.integers(0, 99))
    )
    for share in (1.0, 0.1):
        norm = share * typical_norm(model, inputs, targets)
        assert difference("ghost", model, inputs, targets, norm) <= TOLERANCE[dtype]


@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(draw=st.data())
def test_units_are_those_of_book_keeping(name: str, draw: st.DataObject) -> None:
    sizes = tuple(draw.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    model, inputs, targets = PROBLEMS[name](draw.draw).make(sum(sizes), torch.float64, draw.draw(st.integers(0, 99)))
    clip = Clip(0.5 * typical_norm(model, inputs, targets), 2.0**-30)
    wanted = ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(inputs, targets, Units(sizes)), clip)
    found = ENGINES["ghost"].clipped_sum(model, criterion, Chunk(inputs, targets, Units(sizes)), clip)
    assert apart(found, wanted) <= 1e-10 * clip.norm * len(sizes)


@pytest.mark.parametrize("name", ["linear", "conv", "tied", "used twice", "parameters of its own", "recurrent"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(draw=st.data())
def test_an_example_that_is_not_finite_leaves_the_others_alone(name: str, value: float, draw: st.DataObject) -> None:
    problem = PROBLEMS[name](draw.draw)
    model, inputs, targets = problem.make(4, torch.float32, draw.draw(st.integers(0, 99)))
    clip = Clip(0.5 * typical_norm(model, inputs, targets), 2.0**-30)
    keep = [0, 1, 3]
    rest = ENGINES["ghost"].clipped_sum(model, criterion, Chunk(inputs[keep], targets[keep]), clip)
    (targets if problem.tokens else inputs)[2] = value
    whole = ENGINES["ghost"].clipped_sum(model, criterion, Chunk(inputs, targets), clip)
    moved = sum(float((whole[key] - rest[key]).square().sum()) for key in whole) ** 0.5
    assert moved <= clip.norm * (1 + 1e-4)


def test_nothing_finite_is_a_sum_of_zero() -> None:
    found = sums("ghost", dropped(), data(8) * float("nan"))
    assert all(not part.any() for part in found.values())


def test_an_infinite_loss_with_a_finite_gradient_counts() -> None:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output * (1 + target)).sum() + torch.where(target == 1, torch.inf, 0.0).sum()

    model, inputs = network(nn.Linear(4, 3)), data(4)
    found = sums("ghost", model, inputs, loss)
    assert apart(found, sums("reference", model, inputs, loss)) <= 1e-12
    assert all(bool(torch.isfinite(part).all()) for part in found.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_are_those_of_book_keeping_to_the_last_bit(dtype: torch.dtype) -> None:
    for way, make in CLIPS.items():
        model, inputs = dropped().to(dtype), data(8).to(dtype)
        inputs[2] = float("nan")
        clip = make(model, 0.5 * typical_norm(model, inputs[:2], LABELS[:2].to(dtype)))
        found = []
        for engine in ("ghost", "bookkeeping"):
            torch.manual_seed(3)
            found.append(ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, LABELS), clip))
        assert all(torch.equal(found[0][name], found[1][name]) for name in found[1]), way


def test_a_backward_pass_that_leaves_a_module_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = backward._places

    def places(loss: Tensor, calls: Any) -> Any:
        reached, _ = real(loss, calls)
        return reached, {calls[-1].outputs[0].node}

    monkeypatch.setattr(backward, "_places", places)
    with pytest.raises(UnsupportedModel, match="left out a module"):
        sums("ghost", dropped(), data(8))


class Stop(Exception):
    """Not an error of the library."""


@pytest.mark.parametrize("where", ["forward", "second forward", "loss", "second loss", "rule"])
def test_the_model_is_left_as_it_was_after_an_exception(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = dropped(), data(8)
    before = state_digests(model)
    torch.set_float32_matmul_precision("high")
    calls = {"forward": 0, "loss": 0}

    def counted(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            calls[kind] += 1
            if where == ("second " if calls[kind] == 2 else "") + kind:
                raise Stop
            return function(*args, **more)

        return call

    def stop(*_: object) -> Tensor:
        raise Stop

    try:
        with monkeypatch.context() as patch:
            patch.setattr(model[2], "forward", counted("forward", torch.tanh))
            patch.setattr("discreet.clipping.losses.F.cross_entropy", counted("loss", nn.functional.cross_entropy))
            if where == "rule":
                patch.setattr("discreet.clipping.rules.linear.LinearRule.squares", stop)
            with pytest.raises(Stop):
                sums("ghost", model, inputs)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert state_digests(model) == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert apart(sums("ghost", model, inputs), sums("bookkeeping", model, inputs)) <= 1e-12


def test_frozen_parameters_are_left_out() -> None:
    model = network(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    model[0].requires_grad_(False)
    assert list(sums("ghost", model, data(4))) == ["2.weight", "2.bias"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_refused_by_name(dtype: torch.dtype) -> None:
    with pytest.raises(UnsupportedModel, match=r"'0\.weight' has type .*'ghost'.*'bookkeeping'"):
        sums("ghost", network(nn.Linear(4, 3)).to(dtype), data(4).to(dtype))


def test_autocast_is_refused_by_name() -> None:
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(UnsupportedModel, match="'ghost' computes in full"):
        sums("ghost", network(nn.Linear(4, 3)).float(), data(4).float())


def test_modules_that_share_parameters_are_measured_together() -> None:
    """By way of others, too: the first and the last have none in common."""

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c, self.d = (nn.Linear(4, 4) for _ in range(4))
            self.b.weight, self.c.bias = self.a.weight, self.b.bias
            self.head = nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.tanh(self.c(self.d(self.b(torch.tanh(self.a(x)))))))

    model = Chain().double()
    assert apart(sums("ghost", model, data(4)), sums("reference", model, data(4))) <= 1e-12
    _, calls = norms.record(model, nn.CrossEntropyLoss(), data(4), LABELS)
    names = sorted(sorted(call.owner.name for call in group) for group in backward._groups(calls))
    assert names == [["a", "b", "c"], ["d"], ["head"]]


def test_several_outputs_and_unused_ones_are_measured_once() -> None:
    class States(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LSTM(4, 5, batch_first=True), nn.LSTM(5, 3, 2, batch_first=True)
            self.idle = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            self.idle(x)
            output, (_, cell) = self.first(x)
            return self.second(output)[1][0][-1] + cell[0][:, :3]

    model = States().double()
    assert apart(sums("ghost", model, data(7, 4)), sums("reference", model, data(7, 4))) <= 1e-12


@pytest.mark.parametrize("way", CLIPS)
def test_with_any_way_to_clip_checkpoints_and_dropout_are_those_of_book_keeping(way: str) -> None:
    """Groups with weights of their own go back through a checkpoint several times."""

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.inner, self.head = nn.Linear(4, 6), dropped(), nn.Linear(3, 3)
            self.inner[0] = nn.Linear(6, 7)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(checkpoint(self.inner, self.first(x), use_reentrant=False))

    model, inputs = network(Checkpointed()), data(4)
    inputs[2] = float("nan")
    clip = CLIPS[way](model, 0.5 * typical_norm(model, inputs[:2], LABELS[:2].double()))
    found = []
    for engine in ("ghost", "bookkeeping"):
        torch.manual_seed(3)
        found.append(ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, LABELS), clip))
    assert set(found[0]) == set(found[1])
    assert apart(*found) <= 1e-11 * clip.spread


def test_the_second_pass_is_used_with_every_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    again = spied(monkeypatch)
    model, inputs = dropped(), data(8)
    for make in CLIPS.values():
        clip = make(model, typical_norm(model, inputs, LABELS.double()))
        ENGINES["ghost"].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, LABELS), clip)
    assert not again


@pytest.mark.parametrize("size", [2.0**27, 2.0**100])
def test_an_example_whose_terms_cancel_leaves_the_others_alone(size: float) -> None:
    """The terms are powers of two, whose sums are exact in any order, so that they cancel on every processor."""

    def proportional(output: Tensor, target: Tensor) -> Tensor:
        return (output * (1 + target).view(-1, 1, 1)).sum()

    model, inputs = network(nn.Linear(4, 3)).float(), data(6, 4).float()
    inputs[5, :3, 0], inputs[5, 3:, 0] = size, -size
    wanted = sums("reference", model, inputs, proportional)
    assert apart(sums("ghost", model, inputs, proportional), wanted) <= 1e-6
