"""The engine `ghost`: its two passes are one function, each is rid of what is not finite, and little is held."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from clips import CLIPS
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import PROBLEMS, criterion, difference, typical_norm
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from discreet.clipping import ENGINES, Clip, Units, backward, ghost, measuring
from discreet.clipping.replay import Generators
from discreet.clipping.state import state_digests
from discreet.core.errors import UnsupportedModel

CLIP = Clip(0.5, 2.0**-30)
LABELS = torch.arange(6) % 3
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
"""In single precision less than one pass keeps: where a gradient cancels, two passes are left with different rests."""


def sums(engine: str, model: nn.Module, inputs: Tensor, loss: Any = None, *, seed: int = 0) -> dict[str, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ENGINES[engine].clipped_sum(model, loss or nn.CrossEntropyLoss(), inputs, LABELS, CLIP)


def data(*shape: int) -> Tensor:
    return torch.randn(6, *shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in other)


def network(*layers: nn.Module) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        for layer in layers:
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()
    return nn.Sequential(*layers).double()


def by_frequency(model: nn.Module) -> bool:
    """Whether the model is one that the engine refuses, see below."""
    return any(getattr(module, "scale_grad_by_freq", False) for module in model.modules())


def dropped() -> nn.Module:
    return network(nn.Linear(8, 7), nn.Dropout(0.5), nn.Tanh(), nn.Linear(7, 5), nn.Dropout(0.3), nn.Linear(5, 3))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=5, deadline=None, derandomize=True)
@given(draw=st.data())
def test_the_sum_is_that_of_the_reference(name: str, dtype: torch.dtype, draw: st.DataObject) -> None:
    model, inputs, targets = PROBLEMS[name](draw.draw).make(
        draw.draw(st.integers(1, 5)), dtype, draw.draw(st.integers(0, 99))
    )
    if by_frequency(model):
        return
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
    wanted = ENGINES["bookkeeping"].clipped_sum(model, criterion, inputs, targets, clip, Units(sizes))
    if by_frequency(model):
        return
    found = ENGINES["ghost"].clipped_sum(model, criterion, inputs, targets, clip, Units(sizes))
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
    rest = ENGINES["ghost"].clipped_sum(model, criterion, inputs[keep], targets[keep], clip)
    (targets if problem.tokens else inputs)[2] = value
    whole = ENGINES["ghost"].clipped_sum(model, criterion, inputs, targets, clip)
    moved = sum(float((whole[key] - rest[key]).square().sum()) for key in whole) ** 0.5
    assert moved <= clip.norm * (1 + 1e-4)


def test_both_passes_have_the_same_dropout() -> None:
    model, inputs = dropped(), data(8)
    found = sums("ghost", model, inputs)
    assert apart(found, sums("bookkeeping", model, inputs)) <= 1e-12
    assert apart(found, sums("ghost", model, inputs, seed=1)) > 1e-3


def test_random_numbers_go_on_where_one_pass_leaves_them() -> None:
    after = []
    for engine in ("ghost", "bookkeeping"):
        torch.manual_seed(3)
        ENGINES[engine].clipped_sum(dropped(), nn.CrossEntropyLoss(), data(8), LABELS, CLIP)
        after.append(torch.get_rng_state())
    assert torch.equal(*after)


def test_dropout_that_is_drawn_anew_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above is worth. (The engine finds it too, by where the generator ends, and starts again.)"""
    model, inputs = dropped(), data(8)
    wanted = sums("bookkeeping", model, inputs)
    monkeypatch.setattr(Generators, "rewind", lambda self: None)
    assert apart(sums("ghost", model, inputs), wanted) > 1e-3
    monkeypatch.setattr(Generators, "agree", lambda self, other: True)
    assert apart(sums("ghost", model, inputs), wanted) > 1e-3


@pytest.mark.parametrize("rows", [[0], [2, 5], [0, 1, 2, 3, 4]])
def test_beside_examples_that_are_not_finite_the_others_keep_their_dropout(rows: list[int]) -> None:
    model, inputs = dropped(), data(8)
    inputs[rows] = float("nan")
    assert apart(sums("ghost", model, inputs), sums("bookkeeping", model, inputs)) <= 1e-12


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


class Greedy(nn.Module):
    """Draws more random numbers if the batch looks like it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        if not bool(torch.isfinite(x).all()):
            torch.rand(5)
        return self.head(nn.functional.dropout(x, 0.5))


def spied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were done again by book-keeping, each time."""
    calls: list[int] = []
    real = ghost.clipped_sums

    def spy(model: nn.Module, loss: Any, inputs: Tensor, *others: Any) -> dict[str, Tensor]:
        calls.append(len(inputs))
        return real(model, loss, inputs, *others)

    monkeypatch.setattr(ghost, "clipped_sums", spy)
    return calls


def test_random_numbers_that_the_second_pass_draws_differently_send_the_chunk_to_book_keeping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    again = spied(monkeypatch)
    model, inputs = network(Greedy()), data(8)
    inputs[3] = float("nan")
    wanted = sums("bookkeeping", model, inputs)
    assert apart(sums("ghost", model, inputs), wanted) <= 1e-12
    assert again == [6]


def test_a_second_pass_that_is_not_finite_sends_the_chunk_to_book_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    again = spied(monkeypatch)
    model, inputs = dropped(), data(8)
    wanted = sums("bookkeeping", model, inputs)
    real = ghost._weighted_sums
    with monkeypatch.context() as patch:
        patch.setattr(ghost, "_weighted_sums", lambda *args: {k: v * torch.nan for k, v in real(*args).items()})
        assert apart(sums("ghost", model, inputs), wanted) <= 1e-12
    assert again == [6]
    sums("ghost", model, inputs)
    assert again == [6]


def test_what_was_measured_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a layer is measured, nothing of the layers that were measured before it is left but for the last one."""
    held: list[weakref.ref[Tensor]] = []
    alive: list[int] = []
    real = measuring.measured

    def spy(parameters: Any, calls: Any, *others: Any) -> Any:
        alive.append(sum(one() is not None for one in held))
        held.extend(weakref.ref(call.gradients[0]) for call in calls)
        held.extend(weakref.ref(call.args[0]) for call in calls)
        return real(parameters, calls, *others)

    monkeypatch.setattr(measuring, "measured", spy)
    layers = [part for _ in range(6) for part in (nn.Linear(8, 8), nn.Tanh())]
    sums("ghost", network(*layers, nn.Linear(8, 3)), data(8))
    assert len(alive) == 7
    assert max(alive) <= 2
    assert len(held) == 14


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


def test_both_passes_are_in_full_precision() -> None:
    seen: list[tuple[str, bool]] = []

    class Watching(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
            return x

    torch.set_float32_matmul_precision("medium")
    try:
        sums("ghost", network(nn.Linear(4, 3), Watching()), data(4))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert seen == [("highest", False)] * 2


def test_frozen_parameters_are_left_out_of_both_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    model[0].requires_grad_(False)
    asked: list[int] = []
    real = torch.autograd.grad
    monkeypatch.setattr(torch.autograd, "grad", lambda *args, **more: asked.append(len(args[1])) or real(*args, **more))
    assert list(sums("ghost", model, data(4))) == ["2.weight", "2.bias"]
    assert asked == [1, 1, 3]  # what the layer returned; what the model returned, without weights and then with them


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_refused_by_name(dtype: torch.dtype) -> None:
    with pytest.raises(UnsupportedModel, match=r"'0\.weight' has type .*'ghost'.*'bookkeeping'"):
        sums("ghost", network(nn.Linear(4, 3)).to(dtype), data(4).to(dtype))


def test_autocast_is_refused_by_name() -> None:
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(UnsupportedModel, match="'ghost' computes in full"):
        sums("ghost", network(nn.Linear(4, 3)).float(), data(4).float())


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_a_backward_pass_that_looks_at_the_whole_batch_is_refused(kind: type[nn.Module]) -> None:
    class Text(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = kind(5, 4, scale_grad_by_freq=True), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            embedded = self.embed(x)
            return self.head(embedded if embedded.dim() == 2 else embedded.mean(1))

    with pytest.raises(UnsupportedModel, match="scale_grad_by_freq"):
        sums("ghost", Text(), torch.randint(5, (6, 7)))


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
    _, calls = measuring.record(model, nn.CrossEntropyLoss(), data(4), LABELS)
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
        found.append(ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), inputs, LABELS, clip))
    assert set(found[0]) == set(found[1])
    assert apart(*found) <= 1e-11 * clip.spread


def test_the_second_pass_is_used_with_every_policy_but_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    again = spied(monkeypatch)
    model, inputs = dropped(), data(8)
    for way, make in CLIPS.items():
        again.clear()
        clip = make(model, typical_norm(model, inputs, LABELS.double()))
        ENGINES["ghost"].clipped_sum(model, nn.CrossEntropyLoss(), inputs, LABELS, clip)
        assert bool(again) == (way == "box"), way


@pytest.mark.parametrize("size", [1e8, 1e30])
def test_an_example_whose_terms_cancel_sends_the_chunk_to_book_keeping(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the second pass the rounding of its terms would hide the others."""
    again = spied(monkeypatch)

    def proportional(output: Tensor, target: Tensor) -> Tensor:
        return (output * (1 + target).view(-1, 1, 1)).sum()

    model, inputs = network(nn.Linear(4, 3)).float(), data(6, 4).float()
    inputs[5, :3, 0], inputs[5, 3:, 0] = size, -size
    wanted = sums("reference", model, inputs, proportional)
    assert apart(sums("ghost", model, inputs, proportional), wanted) <= 1e-6
    assert again == [6]
    with monkeypatch.context() as patch:
        patch.setattr(ghost, "_within_reach", lambda *_: True)
        assert apart(sums("ghost", model, inputs, proportional), wanted) > 1e-2
    sums("ghost", model, inputs[:5].repeat(2, 1, 1)[:6], proportional)
    assert again == [6]
