"""Losses and hooks that carry something to the next example, or compare examples, are refused before a charge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from problems import CLASSES, linear, tiny_training
from torch import Tensor, nn

from discreet.clipping.digests import state_digests
from discreet.core.errors import UnsupportedModel
from discreet.training.preflight.losses.loss_check import check_loss
from discreet.training.preflight.losses.loss_trials import livelier
from discreet.training.preflight.random_rows import Examples

FEATURES = 5


class Number(nn.Module):
    """Divides by a running mean, which is a plain number."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = 1.0

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        loss = F.cross_entropy(output, target)
        self.mean = 0.9 * self.mean + 0.1 * float(loss.detach())
        return loss / self.mean


class Buffer(nn.Module):
    """The same, with a buffer."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.ones(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        loss = F.cross_entropy(output, target)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * loss)
        return loss / self.mean.clone()


class Count(nn.Module):
    """Only keeps what it saw."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        self.seen += output.detach().sum()
        return F.cross_entropy(output, target)


class Largest:
    """Divides by the largest loss so far: what is smaller leaves no trace."""

    def __init__(self) -> None:
        self.largest = 50.0

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        loss = F.cross_entropy(output, target)
        self.largest = max(self.largest, float(loss.detach()))
        return loss / self.largest


class Hooked(nn.Module):
    """A hook that divides gradients by their running size."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.size = nn.Linear(FEATURES, CLASSES), 1.0

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.head(x)
        if output.requires_grad:
            output.register_hook(self.divided)
        return output

    def divided(self, gradient: Tensor) -> Tensor:
        self.size = 0.9 * self.size + 0.1 * float(gradient.abs().sum())
        return gradient / self.size


def examples() -> Examples:
    generator = torch.Generator().manual_seed(0)
    return Examples(torch.rand(12, FEATURES, generator=generator), torch.arange(12) % CLASSES, None)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Dropout(0.3), nn.Linear(FEATURES, CLASSES))


@pytest.mark.parametrize("engine", ["auto", "bookkeeping", "ghost", "vmap", "reference", "exact"])
def test_a_loss_that_remembers_is_refused_by_every_engine(tmp_path: Path, engine: str) -> None:
    with pytest.raises(UnsupportedModel, match=r"the loss \(Number\).*keeps state between calls"):
        tiny_training(tmp_path, model=linear(), criterion=Number(), engine=engine)


@pytest.mark.parametrize("loss", [Buffer, Count])
def test_a_buffer_of_the_loss_may_not_change_and_is_put_back(loss: Callable[[], nn.Module]) -> None:
    made = loss()
    before = state_digests(made)
    with pytest.raises(UnsupportedModel, match=r"a buffer or parameter of the loss .* changes"):
        check_loss(model(), made, examples())
    assert state_digests(made) == before


def test_what_only_large_examples_leave_is_found() -> None:
    with pytest.raises(UnsupportedModel, match="keeps state"):
        check_loss(model(), Largest(), examples())


def test_a_hook_that_remembers_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="or a hook of the model, keeps state"):
        check_loss(Hooked(), nn.CrossEntropyLoss(), examples())


def fussy(output: Tensor, target: Tensor) -> Tensor:
    if not bool(output.abs().max() < 100):
        raise ValueError("too large")
    return F.cross_entropy(output, target)


def drawn(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output + torch.randn_like(output), target)


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), fussy, drawn])
def test_other_losses_are_let_pass_and_the_generator_is_left_as_it_was(loss: Callable[..., Tensor]) -> None:
    made = model()
    generator, digests = torch.get_rng_state(), state_digests(made)
    check_loss(made, loss, examples())
    assert torch.equal(torch.get_rng_state(), generator)
    assert state_digests(made) == digests


def contrastive(output: Tensor, target: Tensor) -> Tensor:
    """Each row shall be nearer to itself than to the others of its batch."""
    part = F.normalize(output, dim=-1)
    return F.cross_entropy(part @ part.T / 0.1, torch.arange(len(part)))


def in_row(output: Tensor, target: Tensor) -> Tensor:
    """Halves of a row shall be near to one another."""
    return (output[:, :1] - output[:, 1:2]).square().mean()


def test_a_loss_that_only_compares_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"the loss \(contrastive\) compares the rows of a batch.*a pair"):
        tiny_training(tmp_path, model=linear(), criterion=contrastive)


def cox(output: Tensor, target: Tensor) -> Tensor:
    """Cox's partial likelihood: of a row alone it is 0, and its gradient a rounding error."""
    risk, late = output[:, 0], (target[None] >= target[:, None]).float()
    return -(risk - torch.log((late * risk.exp()[None]).sum(1) + 1e-12)).mean()


def supervised(output: Tensor, target: Tensor) -> Tensor:
    """Rows of one target shall be near one another."""
    near = output @ output.T - 1e9 * torch.eye(len(output))
    same = (target[:, None] == target[None]).float() - torch.eye(len(output))
    return -(same * F.log_softmax(near, 1)).sum(1).div(same.sum(1).clamp(min=1)).mean()


@pytest.mark.parametrize("loss", [cox, supervised])
def test_a_loss_that_is_next_to_nothing_for_a_row_alone_is_refused(loss: Callable[..., Tensor]) -> None:
    targets = torch.rand(12, generator=torch.Generator().manual_seed(1))
    with pytest.raises(UnsupportedModel, match="compares the rows of a batch"):
        check_loss(model(), loss, Examples(examples().inputs, targets, None))


def hardest(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, reduction="none").amax()


def pooled(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target) + F.mse_loss(output.mean(0), torch.ones(CLASSES))


def test_a_loss_that_pools_rows_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check_loss(model(), pooled, examples())
    assert "pooled) of a batch is not made of the losses of its rows" in caplog.text


def two_hardest(output: Tensor, target: Tensor) -> Tensor:
    losses = F.cross_entropy(output, target, reduction="none")
    return losses.topk(min(2, len(losses))).values.mean()


@pytest.mark.parametrize("loss", [hardest, two_hardest])
def test_a_loss_of_the_hardest_rows_is_warned_of(loss: Callable[..., Tensor], caplog: pytest.LogCaptureFixture) -> None:
    check_loss(model(), loss, examples())
    assert f"({loss.__name__}) leaves out some rows of a batch because of the others" in caplog.text


def zero_for_some(output: Tensor, target: Tensor) -> Tensor:
    """Rows of one class have no gradient, alone or beside others."""
    return (F.cross_entropy(output, target, reduction="none") * (target > 0)).sum()


@pytest.mark.parametrize(
    "loss", [drawn, zero_for_some, nn.CrossEntropyLoss(weight=torch.tensor([1.0, 0.1, 0.5]), reduction="sum")]
)
def test_a_loss_made_of_those_of_rows_is_not(loss: Callable[..., Tensor], caplog: pytest.LogCaptureFixture) -> None:
    check_loss(model(), loss, examples())
    assert not caplog.text


def test_class_weights_that_cancel_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check_loss(model(), nn.CrossEntropyLoss(weight=torch.ones(CLASSES)), examples())
    assert not caplog.text
    check_loss(model(), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 0.1, 0.5])), examples())
    assert "the class weights of the loss (CrossEntropyLoss) have no effect" in caplog.text


def test_a_penalty_of_weights_in_the_loss_is_refused(tmp_path: Path) -> None:
    made = linear()

    def penalised(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target) + sum(part.square().sum() for part in made.parameters())

    with pytest.raises(
        UnsupportedModel, match=r"\(penalised\) uses weights of the model beside its output.*weight_decay"
    ):
        tiny_training(tmp_path, model=made, criterion=penalised)


def test_targets_that_give_a_gradient_are_looked_for() -> None:
    """Between 0 and 1 a target is no label of `CosineEmbeddingLoss`, and engines would agree on nothing at all."""

    def away(output: Tensor, target: Tensor) -> Tensor:
        return (output[:, 0] * (target.abs() == 1)).mean()

    plain = Examples(examples().inputs, torch.rand(12, generator=torch.Generator().manual_seed(1)), None)
    assert (
        livelier(model(), F.mse_loss, Examples(plain.inputs, torch.rand(12, CLASSES), None)).targets.unique().numel()
        > 3
    )
    assert set(livelier(model(), away, plain).targets.abs().tolist()) >= {1.0}
    assert livelier(model(), lambda output, target: output.sum() * 0, plain) is plain


def test_the_targets_are_taken_of_which_most_rows_have_a_gradient() -> None:
    """Where a single row had one, rounding was measured on that row alone."""

    def of_whole(output: Tensor, target: Tensor) -> Tensor:
        """Of numbers, the loss is of the large alone; of whole numbers, of all."""
        counts = (target > 0.99) | (target == target.round())
        return (output.square().sum(1) * counts).sum()

    drawn = torch.full((12,), 0.3)
    drawn[0] = 0.995
    found = livelier(model(), of_whole, Examples(examples().inputs, drawn, None))
    assert torch.equal(found.targets, found.targets.round())


def test_a_loss_within_a_row_is_let_pass() -> None:
    check_loss(model(), in_row, examples())


def test_a_model_without_any_gradient_yet_is_let_pass() -> None:
    made = nn.Sequential(nn.Linear(FEATURES, 4), nn.Linear(4, CLASSES))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    check_loss(made, in_row, examples())


class Scaled(nn.Module):
    """A loss with a scale of its own."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target) * self.scale


def test_what_cannot_teach_anything_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    check_loss(model(), F.cross_entropy, examples())
    assert not caplog.text
    check_loss(model(), Scaled(1.0), examples())
    assert "parameters of the loss (Scaled) are not trained: scale; make them part of the model" in caplog.text
    assert "on every random row" not in caplog.text
    check_loss(model(), Scaled(float("nan")), examples())
    assert "the loss (Scaled) or its gradient is NaN or infinite on every random row" in caplog.text
