"""What is proved to keep rows apart does, and what mixes them is not proved, as far as it can be made up here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from checkpointed import Between
from mixing_late import BACK, LATE
from mixing_made import MADE
from mixing_modules import ALWAYS, CLASSES, FEATURES, RARELY, Two
from mixing_programs import PROGRAMS
from mixing_runs import training
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from discreet import UnsupportedModel
from discreet.clipping import ENGINES, Chunk, Clip, evaluation_mode
from discreet.clipping.separation import Mixes, examined, proved, recorder
from discreet.clipping.separation.registry import RULES, SIZES

CLIP, LOSS = Clip(1.0, 2.0**-30), nn.CrossEntropyLoss()


def running(model: nn.Module, row: tuple[int, ...] = (FEATURES,)) -> Callable[[int], None]:
    """Clipped sums of random rows of that shape."""

    def run(rows: int) -> None:
        inputs, targets = torch.randn(rows, *row), torch.arange(rows) % CLASSES
        ENGINES["bookkeeping"].clipped_sum(model, LOSS, Chunk(inputs, targets), CLIP)

    return run


@pytest.mark.parametrize("name", {**ALWAYS, **RARELY, **BACK})
def test_models_whose_rows_meet_are_not_proved(name: str) -> None:
    model = {**ALWAYS, **RARELY, **BACK}[name]()
    with pytest.raises(Mixes):
        proved(running(model))


@pytest.mark.parametrize("name", [*PROGRAMS, *MADE])
def test_no_way_through_the_operators_is_proved(name: str) -> None:
    with pytest.raises(Mixes):
        proved(running(Between((PROGRAMS | MADE)[name])))


class Slower(torch.autograd.Function):
    """The identity; each example's gradient is made short by itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return gradient / (1 + x.norm(dim=1, keepdim=True))


@pytest.mark.parametrize("what", ["a function", "a hook"])
def test_python_code_in_the_backward_pass_is_not_proved_even_if_it_keeps_rows_apart(what: str) -> None:
    words = r"^(module '.*'|the model or its loss) has a (derivative of its own|part in its own backward pass)"
    with pytest.raises(Mixes, match=words):
        proved(running(Between(Slower.apply if what == "a function" else _hooked)))


def _filled(h: Tensor) -> Tensor:
    buffer = torch.zeros(len(h), 20)
    buffer[:, 2:18] = h
    return buffer[:, 4:]


def _heads(h: Tensor) -> Tensor:
    one = h.view(len(h), 4, 2, 2).permute(2, 0, 1, 3).reshape(2 * len(h), 4, 2)
    weights = torch.softmax(one @ one.transpose(1, 2), -1)
    return (weights @ one).view(2, len(h), 4, 2).permute(1, 2, 0, 3).reshape(len(h), 16)


def _picked(h: Tensor) -> Tensor:
    rows, last = h.view(len(h), 4, 4), h.view(len(h), 4, 4).sum(2).argmax(1)
    return torch.cat([rows[torch.arange(len(h)), last], h[:, 4:]], 1)


def _swapped(h: Tensor) -> Tensor:
    z = (h * 1.0).transpose_(0, 1).mul_(2.0)
    half = z.t()[:, :8]
    return torch.cat([half, z.t()[:, 8:]], 1)


def _hooked(h: Tensor) -> Tensor:
    if h.requires_grad:
        h.register_hook(lambda gradient: gradient.clamp(-1, 1))
    return h * 1


TABLE = torch.linspace(-1, 1, 64).sin()

APART: dict[str, Callable[[Tensor], Tensor]] = {
    "normalised": lambda h: F.normalize(h, dim=1),
    "softmax": lambda h: torch.softmax(h, 1),
    "sorted": lambda h: h.sort(1, descending=True).values,
    "picked": _picked,
    "one-hot": lambda h: h + F.one_hot(h.argmax(1), 16),
    "heads": _heads,
    "filled": _filled,
    "many sizes": lambda h: h + sum(torch.ones(size).mean() for size in (5 * 7 * 11, 13 * 17 * 19, 23 * 29 * 31 * 37)),
    "in place": lambda h: (h * 1).add_(1).mul_(2),
    "axes swapped in place": _swapped,
    "channels last, pooled to one place": lambda h: F.adaptive_avg_pool2d(
        h.view(-1, 16, 1, 1).expand(-1, -1, 2, 2).contiguous(memory_format=torch.channels_last), 1
    ).flatten(1),
    "masked": lambda h: h.masked_fill(h > 0.5, 0.0),
    "einsum": lambda h: torch.einsum("bi,bj,j->bi", h, h, torch.linspace(0, 1, 16)),
    "convolution": lambda h: F.conv1d(h.unsqueeze(1), torch.ones(1, 1, 3), padding=1).squeeze(1),
    "unfold": lambda h: h.unfold(1, 4, 4).flatten(1),
    "position": lambda h: h.view(-1, 4, 4).add(torch.arange(4.0).view(4, 1)).flatten(1),
    "window": lambda h: torch.roll(h.view(-1, 4, 4), (1, -1), (1, 2)).flatten(1),
    "group norm": lambda h: F.group_norm(h, 4),
    "instance norm": lambda h: F.instance_norm(h.view(-1, 4, 4)).flatten(1),
    "weights of one size": lambda h: h * F.batch_norm(TABLE.view(1, 16, 4), None, None, training=True)[0, :, 0],
    "two views": lambda h: (lambda both: both[: len(h)] * both[len(h) :])(torch.cat([h, torch.tanh(h)])),
    "cumulative": lambda h: h.cumsum(1),
    "sum of nothing": lambda h: h + h[:, 16:].sum(1, keepdim=True),
    "statistics that nobody uses": lambda h: (h.mean(0), h)[1],
    "checkpoint": lambda h: checkpoint(lambda z: torch.tanh(z) * z, h, use_reentrant=False),  # type: ignore[no-any-return]
    "frequencies": lambda h: torch.fft.irfft(torch.fft.rfft(h, dim=1) * 0.5, n=16, dim=1),
    "bilinear": lambda h: F.bilinear(h[:, :4], h[:, 4:8], torch.linspace(-1, 1, 256).view(16, 4, 4)),
    "bilinear on places": lambda h: F.bilinear(
        h.view(-1, 4, 4), h.view(-1, 4, 4), torch.linspace(-1, 1, 64).view(4, 4, 4)
    ).flatten(1),
    "distances": lambda h: torch.cdist(h.view(-1, 4, 4), h.view(-1, 4, 4)).flatten(1),
}
"""Functions of each row, as models have them."""


@pytest.mark.parametrize("name", APART)
def test_models_whose_rows_stay_apart_are_proved_and_do(name: str) -> None:
    model = Between(APART[name])
    template = examined(running(model))
    assert template.one.items == []
    inputs = torch.randn(9, FEATURES)
    with torch.no_grad(), evaluation_mode(model):
        alone = torch.cat([model(inputs[i : i + 1]) for i in range(9)])
        torch.testing.assert_close(model(inputs), alone)
    for rows in (2, 9):
        ran = recorder.Recorder()
        with ran.recording():
            running(model)(rows)
        assert template.matches(ran.programs[0])


class Recurrent(nn.Module):
    """Classes by the last state of a recurrent layer."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        states: Tensor = self.layer(x)[0]
        return self.last(states[:, -1])  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers_that_take_the_batch_first_are_proved(kind: type[nn.RNNBase]) -> None:
    proved(running(Recurrent(kind(FEATURES, 3, batch_first=True)), (5, FEATURES)))


def test_axes_of_the_rows_themselves_are_not_swapped_in_place() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(x.transpose_(1, 2).mean(1))  # type: ignore[no-any-return]

    with pytest.raises(Mixes, match=r"transpose_.* swaps axes of the examples themselves"):
        proved(running(Turned(), (FEATURES, 5)))


def test_a_single_number_has_axes_to_swap_for_torch() -> None:
    """Its axes 0 and -1 are none, but torch takes them."""
    scale = torch.tensor(1.5)
    for swapped in (lambda: scale.clone().transpose_(0, 0), lambda: scale.transpose(-1, 0), lambda: scale.permute(())):
        proved(running(Between(lambda h, swapped=swapped: h * swapped())))


def test_random_numbers_for_each_row_are_proved_and_those_for_all_of_them_are_not() -> None:
    """What is done again one row at a time draws for each row."""

    def each(h: Tensor) -> Tensor:
        kept = torch.rand(len(h), 1) < 0.9
        return torch.where(kept, F.dropout(h, 0.3) + torch.randn_like(h) + torch.normal(h, 0.1), h)

    proved(running(Between(each)))
    with pytest.raises(Mixes, match=r"by aten\.rand, which draws numbers that examples have in common"):
        proved(running(Between(lambda h: h * torch.rand(()))))


@pytest.mark.parametrize("name", LATE)
def test_what_comes_late_is_not_seen_beforehand(name: str) -> None:
    proved(running(LATE[name]()))


def test_the_reason_names_operator_and_module() -> None:
    model = nn.Sequential(nn.Linear(FEATURES, 4), nn.Sequential(Between(lambda h: h - h.mean(0))), nn.Linear(2, 2))
    model[1][0].first, model[1][0].last = nn.Linear(4, 16), nn.Linear(16, 2)
    with pytest.raises(Mixes, match=r"depends on several examples, by aten.mean.dim in module '1.0'"):
        examined(running(model))


def test_a_constant_is_not_what_was_at_its_place_in_memory_before() -> None:
    def between(rows: Tensor) -> Tensor:
        freed = rows.sum(0).sum()
        del freed
        return rows * torch.tensor(2.5)

    look = recorder.Recorder(closely=True)
    inputs = torch.rand(5, FEATURES)
    with look.recording(), torch.no_grad(), recorder.forward(None, inputs):
        recorder.returns(between(inputs))
    (fresh,) = [op for op in look.programs[0].ops if op.func is torch.ops.aten.lift_fresh.default]
    assert fresh.args[0].ref.kind == "kept"


def test_rules_are_those_of_operators_that_there_are() -> None:
    known = {name for name in (*RULES, *SIZES) if hasattr(torch.ops.aten, name) or hasattr(torch.ops.aten, f"{name}_")}
    assert {*RULES, *SIZES} == known


class Nested(Two):
    """A model that makes a nested tensor of its rows."""

    def between(self, h: Tensor) -> Tensor:
        rows: Tensor = torch.nested.nested_tensor([*h.unsqueeze(1)])
        return rows.to_padded_tensor(0.0).squeeze(1)


class Parted(Two):
    """One that takes its rows apart."""

    def between(self, h: Tensor) -> Tensor:
        return torch.cat(h.split(1))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Nested, "works with a tensor that is not an array in memory"),
        (Parted, "a number that aten.cat is given depends on the number of examples"),
    ],
)
def test_what_cannot_be_followed_is_said_before_torchs_own_error(
    kind: type[nn.Module], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedModel, match=said):
        training(kind, "bookkeeping", tmp_path)
