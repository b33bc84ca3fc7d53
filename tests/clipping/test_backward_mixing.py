"""What lets examples influence each other on the way back from the loss is found by trying, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import PROBLEMS, criterion
from torch import Tensor, nn

from discreet.clipping import LOSS, mixing_backward
from discreet.clipping.digests import state_digests

FEATURES, CLASSES = 8, 3

Hook = Callable[[Tensor], Tensor]


class Back(torch.autograd.Function):
    """The identity, with a backward pass that is given."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, hook: Hook) -> Tensor:
        ctx.hook = hook
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return ctx.hook(gradient), None


class Hooked(nn.Module):
    """Two layers; the hook is on what the last one returns, on what the first one does, or in a function between."""

    def __init__(self, hook: Hook, where: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.hook, self.where = hook, where
        self.first, self.last = nn.Linear(FEATURES, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        if self.where == "first" and hidden.requires_grad:
            hidden.register_hook(self.hook)
        hidden = torch.tanh(hidden)
        if self.where == "function":
            hidden = Back.apply(hidden, self.hook)
        output: Tensor = self.last(hidden)
        if self.where == "last" and output.requires_grad:
            output.register_hook(self.hook)
        return output


def batches() -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(3)
    one, other = (
        (torch.rand(4, FEATURES, generator=generator), torch.randint(CLASSES, (4,), generator=generator))
        for _ in range(2)
    )
    return one, other


CROSS_ENTROPY = nn.CrossEntropyLoss()

MIXING: dict[str, Hook] = {
    "nothing if one is not finite": lambda g: g if bool(g.isfinite().all()) else torch.zeros_like(g),
    "largest of the batch": lambda g: g / (g.abs().max() + 1e-12),
    "norm of the batch, beyond 100": lambda g: g * min(1.0, 100.0 / (float(g.norm()) + 1e-12)),
    "eight bits": lambda g: torch.round(g / (g.abs().max() / 127)) * (g.abs().max() / 127),
    "centred": lambda g: g - g.mean(0),
}


@pytest.mark.parametrize("where", ["first", "last", "function"])
@pytest.mark.parametrize("name", MIXING)
def test_mixing_on_the_way_back_is_found_and_named(name: str, where: str) -> None:
    model = Hooked(MIXING[name], where)
    assert mixing_backward(model, CROSS_ENTROPY, *batches()) == ("first" if where == "first" else "last")


ALONE: dict[str, Hook] = {
    "reversed": lambda g: -0.1 * g,
    "scaled by its own norm": lambda g: g / (g.norm(dim=1, keepdim=True) + 1e-12),
    "cut off": lambda g: g.clamp(-1, 1),
}


@pytest.mark.parametrize("where", ["first", "last", "function"])
@pytest.mark.parametrize("name", ALONE)
def test_what_treats_every_example_alone_is_let_pass(name: str, where: str) -> None:
    model = Hooked(ALONE[name], where)
    assert mixing_backward(model, CROSS_ENTROPY, *batches()) is None


class Smoothed(nn.Module):
    """A loss divided by that of the example before."""

    before = 1.0

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        loss = CROSS_ENTROPY(output, target)
        value, self.before = self.before, float(loss.detach())
        return loss / value


def test_a_loss_in_which_examples_meet_is_found() -> None:
    assert mixing_backward(Hooked(lambda g: g, "last"), Smoothed(), *batches()) == LOSS


class Shared(nn.Module):
    """Positions that all examples have in common, attention with masks, dropout, and a slope that is drawn."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.position = nn.Embedding(2, 4)
        self.inner = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True)
        self.slope, self.head = nn.RReLU(), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.view(len(x), 2, 4) + self.position(torch.arange(2))
        padding = torch.stack([torch.zeros(len(x)).bool(), x[:, 0, 0] > 0.5], 1)
        output: Tensor = self.head(self.slope(self.inner(x, src_key_padding_mask=padding))[:, 0])
        return output


ORDINARY: dict[str, Callable[[], nn.Module]] = {
    "shared": Shared,
    "frozen norm": lambda: nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5).eval(), nn.Linear(5, CLASSES)),
    "in place": lambda: nn.Sequential(nn.Linear(FEATURES, 5), nn.ReLU(inplace=True), nn.Linear(5, CLASSES)),
    "selected": lambda: Selecting(),
}


class Selecting(nn.Module):
    """Works on numbers that are chosen by their values."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(x)
        chosen = output > 0
        return output.masked_scatter(chosen, output[chosen].tanh())


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_models_are_let_pass_and_left_as_they_were(name: str) -> None:
    # With other weights `Selecting` may choose as many numbers as there are rows, or a multiple, and is refused for it.
    torch.manual_seed(0)
    model = ORDINARY[name]()
    before, generator = state_digests(model), torch.get_rng_state()
    assert mixing_backward(model, CROSS_ENTROPY, *batches()) is None
    assert state_digests(model) == before
    assert torch.equal(torch.get_rng_state(), generator)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("name", PROBLEMS)
@settings(max_examples=1, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_false_alarm_on_what_has_a_rule(name: str, data: st.DataObject) -> None:
    problem, seed = PROBLEMS[name](data.draw), data.draw(st.integers(0, 10**6))
    model, inputs, targets = problem.make(8, torch.float32, seed)
    assert mixing_backward(model, criterion, (inputs[:4], targets[:4]), (inputs[4:], targets[4:])) is None


def test_what_a_hook_remembers_of_a_batch_of_this_size_does_not_hide() -> None:
    """It takes a number from the first batch of each size, and scales the gradients of all later ones by it."""
    known: dict[str, Tensor] = {}
    last = [0]

    def hook(gradient: Tensor) -> Tensor:
        if last[0] != len(gradient):
            last[0] = len(gradient)
            known["scale"] = 1 + 1e-3 * gradient.abs().mean() / gradient.abs().max()
        return gradient * known["scale"]

    assert mixing_backward(Hooked(hook, "first"), criterion, *batches()) is not None
