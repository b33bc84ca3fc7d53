"""What the engine refuses, what it leaves alone, and how exact its bound is."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from discreet.clipping import ENGINES, Chunk, Clip
from discreet.clipping.capture.call import Call
from discreet.clipping.digests import state_digests
from discreet.clipping.engines import bookkeeping
from discreet.clipping.rules import conv
from discreet.core.errors import UnsupportedModel

CLIP = Clip(0.5, 2.0**-30)
LABELS = torch.arange(6) % 3


def sums(model: nn.Module, inputs: Tensor, targets: Tensor = LABELS, engine: str = "bookkeeping") -> dict[str, Tensor]:
    return ENGINES[engine].clipped_sum(model, nn.CrossEntropyLoss(), Chunk(inputs, targets), CLIP)


def data(*shape: int) -> Tensor:
    return torch.randn(6, *shape, generator=torch.Generator().manual_seed(2))


def agree(model: nn.Module, inputs: Tensor) -> None:
    one, other = sums(model, inputs), sums(model, inputs, engine="reference")
    for name in other:
        torch.testing.assert_close(one[name], other[name], rtol=1e-5, atol=1e-5, check_dtype=False)


class Function(nn.Module):
    """Layers put together by a function."""

    def __init__(self, forward: Callable[[nn.Module, Tensor], Tensor], *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self._forward = nn.ModuleList(layers), forward

    def __getitem__(self, index: int) -> nn.Module:
        return self.layers[index]

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self, x)


def test_a_layer_after_an_operation_in_place_is_right() -> None:
    agree(nn.Sequential(nn.Linear(4, 5), nn.ReLU(inplace=True), nn.Linear(5, 3), nn.Tanh()), data(4))


def test_an_input_that_is_overwritten_is_refused_by_name() -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        h = model[0](x)
        out = model[1](h)
        h.add_(1)
        return out

    with pytest.raises(UnsupportedModel, match=r"'layers\.1' \(Linear\).*in place"):
        sums(Function(forward, nn.Linear(4, 5), nn.Linear(5, 3)), data(4))


def test_a_parameter_used_outside_its_module_is_refused_by_name() -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return model[1](torch.tanh(model[0](x))) + F.linear(x, model[0].weight)[:, :3]

    with pytest.raises(UnsupportedModel, match=r"'layers\.0\.weight' is used outside"):
        sums(Function(forward, nn.Linear(4, 5), nn.Linear(5, 3)), data(4))


def test_examples_on_another_axis_are_refused_by_name() -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        return model[1](model[0](x.transpose(0, 1)).transpose(0, 1).mean(1))

    with pytest.raises(UnsupportedModel, match=r"'layers\.0' \(Linear\).*axis 0"):
        sums(Function(forward, nn.Linear(4, 5), nn.Linear(5, 3)), data(7, 4))


@pytest.mark.parametrize("drop", [0.0, 0.5])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("engine", ["bookkeeping", "ghost"])
def test_checkpointed_modules_are_right_or_refused(engine: str, reentrant: bool, drop: float) -> None:
    def block(model: nn.Module, h: Tensor) -> Tensor:
        return torch.tanh(F.dropout(model[1](h), drop))

    def forward(model: nn.Module, x: Tensor, again: bool = True) -> Tensor:
        h = model[0](x)
        h = checkpoint(block, model, h, use_reentrant=reentrant) if again else block(model, h)
        return model[2](h)

    layers = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)
    if reentrant:
        with pytest.raises(UnsupportedModel, match="use_reentrant=True"):
            sums(Function(forward, *layers), data(4), engine=engine)
        return
    found = []
    for again, name in ((True, engine), (False, "bookkeeping")):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            found.append(sums(Function(lambda m, x, a=again: forward(m, x, a), *layers), data(4), engine=name))
    for key, part in found[1].items():
        torch.testing.assert_close(found[0][key], part, rtol=1e-5, atol=1e-6)


def test_a_module_without_a_rule_that_draws_random_numbers_is_refused_by_name() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))

        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x, 0.5) * (self.scale * self.scale)

    with pytest.raises(UnsupportedModel, match=r"'0' \(Noisy\).*random"):
        sums(nn.Sequential(Noisy(), nn.Linear(4, 3)), data(4))


class Picked(nn.Module):
    """Numbers of a table, picked by indices that it is given beside its input."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.linspace(-1, 1, 3))

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        return x * (self.table * self.table)[index]


def test_a_module_that_is_run_again_is_told_to_hold_what_is_not_of_one_example() -> None:
    index = torch.tensor([0, 2, 1, 0])
    model = Function(lambda layers, x: layers[1](layers[0](x, index)), Picked(), nn.Linear(4, 3))
    said = r"\(Picked\).*takes or returns a tensor of shape \(4,\) in a batch of 6; let it hold .*'vmap'"
    with pytest.raises(UnsupportedModel, match=said):
        sums(model, data(4))


def test_dropout_between_layers_is_used_once_for_norm_and_sum() -> None:
    """With the linear layer's norm far above the clip norm, every contribution has exactly the clip norm."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(40, 3)).double()
    inputs = data(40).double() * 100
    for row in range(6):
        one = ENGINES["bookkeeping"].clipped_sum(
            model, lambda output, _: output.sum(), Chunk(inputs[row : row + 1], LABELS[row : row + 1]), CLIP
        )
        assert sum(float(part.square().sum()) for part in one.values()) ** 0.5 == pytest.approx(CLIP.norm, rel=1e-9)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.BatchNorm1d(4), "GroupNorm"),
        (nn.Embedding(9, 4, max_norm=1.0), "max_norm"),
        (nn.InstanceNorm1d(4, affine=True, track_running_stats=True), "track_running_stats"),
    ],
    ids=str,
)
def test_what_cannot_be_clipped_is_refused_with_the_fix(module: nn.Module, message: str) -> None:
    inputs = torch.randint(9, (6, 4)) if isinstance(module, nn.Embedding) else data(4, 3)
    model = Function(lambda model, x: model[1](model[0](x).flatten(1)), module, nn.LazyLinear(3))
    model(inputs)
    with pytest.raises(UnsupportedModel, match=message):
        sums(model, inputs)


class Stop(Exception):
    """Not an error of the library."""


@pytest.mark.parametrize("where", ["forward", "loss", "rule"])
def test_the_model_is_left_as_it_was_after_an_exception(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> Tensor:
        raise Stop

    layers = [nn.Linear(4, 5), nn.GRUCell(5, 5), nn.Linear(5, 3)]
    model = Function(lambda model, x: model[2](model[1](model[0](x))), *layers)
    before, hooks = state_digests(model), [len(module._forward_hooks) for module in model.modules()]
    criterion = stop if where == "loss" else nn.CrossEntropyLoss()
    with monkeypatch.context() as patch:
        if where == "forward":
            patch.setattr(model, "_forward", stop)
        if where == "rule":
            patch.setattr("discreet.clipping.rules.linear.LinearRule.total", stop)
        with pytest.raises(Stop):
            ENGINES["bookkeeping"].clipped_sum(model, criterion, Chunk(data(4), LABELS), CLIP)
    assert state_digests(model) == before
    assert [len(module._forward_hooks) for module in model.modules()] == hooks
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    agree(model, data(4))


def test_positions_that_cancel_do_not_hide_from_the_norm() -> None:
    """Gram sums of gradients that cancel are all rounding; the contribution must be bounded all the same."""

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        h = model[0](x)
        return (h[:, 0] - h[:, 1]).sum(1, keepdim=True) * torch.ones(1, 3) * 1e4

    inputs = data(1, 64).repeat(1, 2, 1) * 1e3
    inputs[:, 1] += 1e-3 * data(64)
    model = Function(forward, nn.Linear(64, 64, bias=False))
    with torch.no_grad():
        model[0].weight.mul_(1e-3)
    error = ENGINES["bookkeeping"].error
    assert error is not None
    for row in range(6):
        one = sums(model, inputs[row : row + 1], LABELS[row : row + 1])
        assert sum(float(part.square().sum()) for part in one.values()) ** 0.5 <= CLIP.norm * (1 + error)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_and_sums_of_half_precision_models_are_wide(dtype: torch.dtype) -> None:
    """Terms of 2^-9 beside 1 would vanish in a norm in half precision."""
    torch.manual_seed(0)
    model = nn.Linear(512, 3, bias=False).to(dtype)
    inputs = torch.full((1, 512), 2.0**-4, dtype=dtype)
    inputs[0, 0] = 16.0
    found = sums(model, inputs, LABELS[:1])["weight"]
    assert float(found.double().norm()) == pytest.approx(CLIP.norm, rel=1e-6)


def test_autocast_keeps_the_bound() -> None:
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 3))
    inputs = data(64) * 50
    for row in range(6):
        with torch.autocast("cpu", torch.bfloat16):
            one = sums(model, inputs[row : row + 1], LABELS[row : row + 1])
        assert sum(float(part.square().sum()) for part in one.values()) ** 0.5 <= CLIP.norm * (1 + 1e-6)


def test_a_small_budget_gives_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Conv1d(3, 4, 2), nn.GroupNorm(2, 4), nn.Tanh(), nn.Linear(6, 3), nn.Flatten())
    model = Function(lambda m, x: m[0](x).mean(1), model[:4]).double()
    inputs = data(3, 7).double()
    whole = sums(model, inputs)
    monkeypatch.setattr("discreet.clipping.rules.base.BUDGET", 64)
    for name, part in sums(model, inputs).items():
        torch.testing.assert_close(part, whole[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "stride", "size"), [((4, 3), (2, 2), (9, 8)), ((3, 2), (3, 4), (11, 7)), ((2, 2), (1, 2), (5, 5))]
)
def test_windows_by_lines_are_the_windows(
    kernel: tuple[int, int], stride: tuple[int, int], size: tuple[int, int]
) -> None:
    module, source = nn.Conv2d(3, 4, kernel, stride), data(3, *size)
    assert conv._in_rows(module)
    by_lines = conv._of_rows(source, module)
    windows = conv._windows(source, module)
    assert torch.equal(by_lines.reshape(windows.shape), windows)


class Doubled(torch.autograd.Function):
    """The identity, whose backward pass doubles the gradient where it lies."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.mul_(2)


def test_a_gradient_that_is_overwritten_after_it_was_measured_is_refused_by_name() -> None:
    def forward(model: nn.Module, x: Tensor) -> Tensor:
        h = model[0](x)
        doubled = Doubled.apply(h)
        return model[2](model[1](h) + doubled)  # the sum hands one tensor back to both; the older operation comes last

    with pytest.raises(UnsupportedModel, match=r"Linear.*overwritten in the backward pass"):
        sums(Function(forward, nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 3)), data(4))


def test_what_is_measured_is_let_go_before_the_backward_pass_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every output's gradient but those that a sum is formed from."""
    gradients: list[weakref.ref[Tensor]] = []
    alive: list[int] = []
    real = bookkeeping.measured

    def measured(parameters: Any, calls: list[Call], *others: Any) -> Any:
        alive.append(sum(one() is not None for one in gradients))
        gradients.extend(weakref.ref(call.gradients[0]) for call in calls if call.gradients[0] is not None)
        return real(parameters, calls, *others)

    monkeypatch.setattr(bookkeeping, "measured", measured)
    sums(nn.Sequential(nn.Linear(4, 6), *(nn.GroupNorm(2, 6) for _ in range(8)), nn.Linear(6, 3)), data(4))
    assert len(gradients) == 10
    assert max(alive) <= 3


@pytest.mark.parametrize("both", [True, False])
def test_an_output_that_another_is_made_from_counts_once(both: bool) -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3) * 1.5)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            inner = torch.tanh(x * self.scale)
            return inner, inner * self.scale

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        inner, outer = model[1](model[0](x))
        return inner + outer if both else outer

    agree(Function(forward, nn.Linear(4, 3), Pair()), data(4))
