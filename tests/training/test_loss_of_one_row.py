"""Losses that teach nothing, or lose a part of what they say, where rows are taken one at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from problems import CLASSES, FEATURES, blobs, linear, tiny_training
from torch import Tensor, nn

from discreet.clipping import Chunk, Clip
from discreet.core.errors import DiscreetError, InputError, UnsupportedModel
from discreet.training.preflight.losses.loss_check import check_loss
from discreet.training.preflight.random_rows import Examples

ENGINES = ["auto", "bookkeeping", "ghost", "vmap", "reference", "exact"]
BATCHED = ["bookkeeping", "ghost"]


def examples(targets: Tensor) -> Examples:
    return Examples(torch.rand(12, FEATURES, generator=torch.Generator().manual_seed(0)), targets, None)


class Squeezed(nn.Module):
    """Drops every axis of length one, and so the axis of rows where there is one row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.head = nn.Linear(FEATURES, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x).squeeze()


def normed(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(F.batch_norm(output, None, None, training=True), target)


@pytest.mark.parametrize("engine", ["auto", "vmap", "reference", "exact"])
def test_what_fails_on_a_row_alone_is_refused(tmp_path: Path, engine: str) -> None:
    """Every row would add nothing, and the run would be paid for: noise on zeros."""
    inputs, labels = blobs()
    cases: list[tuple[nn.Module, Any, Tensor]] = [
        (Squeezed(1), nn.BCEWithLogitsLoss(), (labels > 0).float()),
        (Squeezed(CLASSES), nn.CrossEntropyLoss(), labels),
        (linear(), normed, labels),
    ]
    for model, criterion, targets in cases:
        with pytest.raises(DiscreetError, match=r"a row alone fails where a batch does not.*look for a squeeze\(\)"):
            tiny_training(tmp_path, model=model, criterion=criterion, data=(inputs, targets), engine=engine)


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    return (output.argmax(1) != target).float().mean()


def detached(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.detach(), target)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("criterion", [accuracy, detached])
def test_a_loss_without_any_gradient_is_refused(tmp_path: Path, criterion: Any, engine: str) -> None:
    with pytest.raises(
        UnsupportedModel, match=rf"no gradient comes of the loss \({criterion.__name__}\).*\.detach\(\)"
    ):
        tiny_training(tmp_path, criterion=criterion, engine=engine)


class Unfollowed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = linear()

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.head(x)  # type: ignore[no-any-return]


def test_so_is_a_model_whose_output_has_none(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModel, match=r"no gradient comes of what the model returns.*torch\.no_grad"):
        tiny_training(tmp_path, model=Unfollowed())


def rare(output: Tensor, target: Tensor) -> Tensor:
    return torch.zeros(()) if target.min() < 2 else output.square().mean()


def test_a_loss_that_only_some_rows_have_is_let_pass() -> None:
    check_loss(linear(), rare, examples(torch.arange(12) % 3))
    check_loss(linear(), rare, examples(torch.arange(12) / 12))


@pytest.mark.parametrize(
    ("criterion", "said"),
    [
        (lambda output, target: F.cross_entropy(output, target).item(), "returns an object of type float"),
        (lambda output, target: None, "returns an object of type NoneType"),
        (lambda output, target: (F.cross_entropy(output, target), {}), "type tuple; it must return a tensor"),
        (lambda output, target: F.cross_entropy(output.logits, target), "has no attribute 'logits'"),
    ],
)
def test_what_is_no_loss_is_one_error(tmp_path: Path, criterion: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        tiny_training(tmp_path, criterion=criterion)


def still() -> nn.Module:
    made = linear()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    return made


class Holding(nn.Module):
    """Holds the model; copies of both are made together."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target) + squares(self.model)


def squares(model: nn.Module) -> Tensor:
    return torch.stack([part.square().sum() for part in model.parameters()]).sum()


def held(output: Tensor, target: Tensor, model: nn.Module) -> Tensor:
    return F.cross_entropy(output, target) + squares(model)


@pytest.mark.parametrize("engine", ["auto", "vmap", "reference"])
def test_a_penalty_is_refused_where_its_gradient_is_still_zero(tmp_path: Path, engine: str) -> None:
    """As at weights of zero, or at the weights that a penalty draws to."""
    for made in (still(), linear()):
        start = [part.detach().clone() for part in made.parameters()]

        def penalised(output: Tensor, target: Tensor, made: nn.Module = made, start: list[Tensor] = start) -> Tensor:
            moved = [(part - old).square().sum() for part, old in zip(made.parameters(), start, strict=True)]
            return F.cross_entropy(output, target) + torch.stack(moved).sum()

        with pytest.raises(UnsupportedModel, match=r"\(penalised\) uses weights of the model beside its output"):
            tiny_training(tmp_path, model=made, criterion=penalised, engine=engine)


@pytest.mark.parametrize("made", [still, linear])
@pytest.mark.parametrize("loss", [Holding, lambda model: partial(held, model=model)])
def test_so_is_one_of_a_loss_that_holds_the_model(tmp_path: Path, made: Any, loss: Any) -> None:
    """Vectorised, it has the weights of the copy, which are not those that are differentiated."""
    model = made()
    for engine in ("auto", "vmap", *BATCHED):
        with pytest.raises(UnsupportedModel, match="uses weights of the model beside its output"):
            tiny_training(tmp_path, model=model, criterion=loss(model), engine=engine)


def test_row_by_row_such_a_loss_has_its_gradient(tmp_path: Path) -> None:
    model = linear()
    training = tiny_training(tmp_path, model=model, criterion=Holding(model), engine="reference")
    inputs, targets = blobs()
    found = training.engine.clipped_sum(model, training.criterion, Chunk(inputs[:1], targets[:1]), Clip(1e6, 2.0**-10))
    loss = F.cross_entropy(model(inputs[:1]), targets[:1]) + squares(model)
    wanted = torch.autograd.grad(loss, list(model.parameters()))
    torch.testing.assert_close([*found.values()], [part.double() for part in wanted])


def test_a_term_of_no_weight_is_let_pass(tmp_path: Path) -> None:
    """`0 * parameter.sum()` is what people add for processes that share a model."""
    model = linear()

    def idle(output: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(output, target) + 0.0 * torch.stack([part.sum() for part in model.parameters()]).sum()

    tiny_training(tmp_path, model=model, criterion=idle)


def standardised(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss((output - output.mean(0)) / output.std(0), F.one_hot(target, CLASSES).float())


def test_a_loss_that_is_nan_for_a_row_alone_is_refused() -> None:
    with pytest.warns(UserWarning, match="degrees of freedom"), pytest.raises(UnsupportedModel, match="compares the"):
        check_loss(linear(), standardised, examples(torch.arange(12) % CLASSES))


def weighted(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, weight=torch.tensor([1.0, 0.1, 0.5]))


def of_columns(output: Tensor, target: Tensor) -> Tensor:
    losses = F.cross_entropy(output, target[:, 0].long(), reduction="none")
    return (losses * target[:, 1]).sum() / target[:, 1].sum()


def root(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output[:, 0], target).sqrt()


COLUMNS = torch.stack([torch.arange(12.0) % CLASSES, torch.linspace(0.1, 1.0, 12)], 1)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [(weighted, torch.arange(12) % CLASSES), (of_columns, COLUMNS), (root, torch.linspace(0, 1, 12))],
)
def test_weights_that_cancel_in_a_function_are_warned_of(
    loss: Callable[..., Tensor], targets: Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    check_loss(linear(), loss, examples(targets))
    assert f"in the loss ({loss.__name__}) how much a row counts depends on the others of its batch" in caplog.text


def added(output: Tensor, target: Tensor) -> Tensor:
    return (F.cross_entropy(output, target[:, 0].long(), reduction="none") * target[:, 1]).sum()


def of_tokens(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.unsqueeze(2).expand(-1, -1, 4), target, ignore_index=0)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        (added, COLUMNS),
        (of_tokens, (torch.arange(48) * 7 % 5 % CLASSES).view(12, 4)),
        (nn.MSELoss(reduction="sum"), torch.rand(12, CLASSES)),
        (nn.KLDivLoss(reduction="batchmean"), torch.full((12, CLASSES), 1 / CLASSES)),
    ],
)
def test_others_are_not(loss: Callable[..., Tensor], targets: Tensor, caplog: pytest.LogCaptureFixture) -> None:
    check_loss(linear(), loss, examples(targets))
    assert not caplog.text


def test_a_column_beside_numbers_without_one_is_not(caplog: pytest.LogCaptureFixture) -> None:
    """A batch would be broadcast to all pairs, of which torch warns; a row alone is as it is meant."""
    with pytest.warns(UserWarning, match="target size"):
        check_loss(nn.Linear(FEATURES, 1), nn.MSELoss(), examples(torch.rand(12)))
    assert not caplog.text


def unlikely(output: Tensor, target: Tensor) -> Tensor:
    return (output.square().sum(1) * (target == 7)).mean()


def test_rounding_that_cannot_be_measured_is_not_taken_for_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of gradients that are all zero the distance is zero, which says nothing of those of other targets."""
    data = blobs()[0], torch.full((24,), 7.0)
    assert tiny_training(tmp_path, criterion=unlikely, data=data).engine.name == "exact"
    assert "engine 'exact' is used, which is slow: no random row has a gradient" in caplog.text
    with pytest.raises(UnsupportedModel, match=r"rounding cannot be measured \(if .*\); engine='exact'"):
        tiny_training(tmp_path, criterion=unlikely, data=data, engine="vmap")


def uneven(rows: int = 24) -> tuple[Tensor, Tensor]:
    return torch.rand(rows, FEATURES), (torch.arange(rows) % 6 == 0).long() + (torch.arange(rows) % 6 == 1).long() * 2


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_weights_that_were_counted_on_private_labels_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, power: float
) -> None:
    """One row more changes the weights, and with them what all other rows add."""
    rows = uneven()
    counts = torch.bincount(rows[1]).float()
    weight = (len(rows[1]) / (3 * counts)) ** power
    tiny_training(tmp_path, data=rows, criterion=nn.CrossEntropyLoss(weight / weight.max(), reduction="sum"))
    assert ("inverse to the numbers of private rows" in caplog.text) == (power == 1)


@pytest.mark.parametrize("counted", [True, False])
def test_so_is_the_weight_of_positive_labels(tmp_path: Path, caplog: pytest.LogCaptureFixture, counted: bool) -> None:
    inputs, labels = uneven()
    positive = int((labels > 0).sum())
    weight = torch.tensor([(len(labels) - positive) / positive if counted else 3.0])
    model = nn.Linear(FEATURES, 1)
    data = inputs, (labels > 0).float()[:, None]
    tiny_training(tmp_path, model=model, data=data, criterion=nn.BCEWithLogitsLoss(pos_weight=weight))
    assert ("inverse to the numbers of private rows" in caplog.text) == counted
