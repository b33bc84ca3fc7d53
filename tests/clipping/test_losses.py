"""Losses of a batch are those of its examples, one by one, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from discreet.clipping.losses import each_loss, summed_loss
from discreet.core.errors import UnsupportedModel

CLASSES, TOKENS, ROWS = 4, 5, 6


def tokens(rows: int = ROWS) -> Tensor:
    """Class indices per position; example 0 has one that counts, example 1 none that is -100."""
    targets = torch.randint(CLASSES, (rows, TOKENS), generator=torch.Generator().manual_seed(3))
    targets[0, 1:] = -100
    targets[2, ::2] = -100
    return targets


def floats(*shape: int) -> Tensor:
    return torch.rand(ROWS, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))


LABELS = torch.arange(ROWS) % CLASSES
SIGNS = torch.arange(ROWS, dtype=torch.float64) % 2 * 2 - 1
CASES: dict[str, tuple[Callable[[str], Any], Tensor, Tensor]] = {
    "cross entropy": (lambda r: nn.CrossEntropyLoss(reduction=r), floats(CLASSES), LABELS),
    "smoothed": (lambda r: nn.CrossEntropyLoss(reduction=r, label_smoothing=0.2), floats(CLASSES), LABELS),
    "class weights": (lambda r: nn.CrossEntropyLoss(floats()[:CLASSES] + 0.5, reduction=r), floats(CLASSES), LABELS),
    "class probabilities": (lambda r: nn.CrossEntropyLoss(reduction=r), floats(CLASSES), floats(CLASSES)),
    "sequences": (lambda r: nn.CrossEntropyLoss(reduction=r), floats(CLASSES, TOKENS), tokens()),
    "smoothed sequences": (
        lambda r: nn.CrossEntropyLoss(reduction=r, label_smoothing=0.1),
        floats(CLASSES, TOKENS),
        tokens(),
    ),
    "scores of tokens": (
        lambda r: nn.CrossEntropyLoss(reduction=r, label_smoothing=0.1),
        floats(TOKENS, CLASSES).transpose(1, 2),
        tokens(),
    ),
    "likelihood": (lambda r: nn.NLLLoss(reduction=r), floats(CLASSES), LABELS),
    "likelihood of sequences": (lambda r: nn.NLLLoss(reduction=r), floats(CLASSES, TOKENS), tokens()),
    "squares": (lambda r: nn.MSELoss(reduction=r), floats(3, 2), floats(3, 2)),
    "squares, broadcast": (lambda r: nn.MSELoss(reduction=r), floats(1), floats()),
    "absolute": (lambda r: nn.L1Loss(reduction=r), floats(3), floats(3).flip(0)),
    "smooth": (lambda r: nn.SmoothL1Loss(reduction=r, beta=0.2), floats(3), floats(3).flip(0)),
    "Huber": (lambda r: nn.HuberLoss(reduction=r, delta=0.2), floats(3), floats(3).flip(0)),
    "soft margin": (lambda r: nn.SoftMarginLoss(reduction=r), floats(3), floats(3).round() * 2 - 1),
    "binary logits": (lambda r: nn.BCEWithLogitsLoss(reduction=r), floats(3), floats(3).round()),
    "binary logits, weighted": (
        lambda r: nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0), reduction=r),
        floats(3),
        floats(3).round(),
    ),
    "binary": (lambda r: nn.BCELoss(reduction=r), floats(), floats().round()),
    "a function": (lambda r: lambda x, y: F.cross_entropy(x, y, reduction=r), floats(CLASSES), LABELS),
    "margin": (lambda r: nn.MultiMarginLoss(reduction=r), floats(CLASSES), LABELS),
    "divergence": (lambda r: nn.KLDivLoss(reduction=r), floats(CLASSES).log_softmax(1), floats(CLASSES).softmax(1)),
    "divergence of logarithms": (
        lambda r: nn.KLDivLoss(reduction=r, log_target=True),
        floats(CLASSES).log_softmax(1),
        floats(CLASSES).flip(0).log_softmax(1),
    ),
    "Poisson": (lambda r: nn.PoissonNLLLoss(reduction=r), floats(3), floats(3).round()),
    "hinge": (lambda r: nn.HingeEmbeddingLoss(reduction=r), floats(3), floats(3).round() * 2 - 1),
    "margins of labels": (
        lambda r: nn.MultiLabelMarginLoss(reduction=r),
        floats(CLASSES),
        torch.tensor([[0, 2, -1, -1], [3, -1, 0, 0], [1, 2, 3, -1]]).repeat(2, 1),
    ),
    "soft margins of labels": (
        lambda r: nn.MultiLabelSoftMarginLoss(reduction=r),
        floats(CLASSES),
        floats(CLASSES).round(),
    ),
    "sequences, padding 0": (
        lambda r: nn.CrossEntropyLoss(reduction=r, ignore_index=0),
        floats(CLASSES, TOKENS),
        tokens().clamp(min=0),
    ),
    "sequences with class weights": (
        lambda r: nn.CrossEntropyLoss(floats()[:CLASSES] + 0.5, reduction=r),
        floats(CLASSES, TOKENS),
        tokens(),
    ),
    "sequences of likelihoods, two axes": (
        lambda r: nn.NLLLoss(reduction=r),
        floats(CLASSES, TOKENS, 2),
        torch.stack([tokens(), tokens().flip(1)], 2),
    ),
    "gaussian": (
        lambda r: lambda x, y: F.gaussian_nll_loss(x[:, 0], y, x[:, 1].exp(), reduction=r),
        floats(2, 3),
        floats(3),
    ),
    "connectionist": (
        lambda r: (
            lambda x, y: F.ctc_loss(
                x.log_softmax(2).transpose(0, 1), y, torch.full((len(x),), 5), torch.full((len(x),), 2), reduction=r
            )
        ),
        floats(5, CLASSES),
        torch.tensor([[1, 2], [3, 1], [2, 1]]).repeat(2, 1),
    ),
}

SEVERAL: dict[str, tuple[Callable[[str], Any], tuple[Tensor, ...], Tensor]] = {
    "cosine": (
        lambda r: lambda x, y: nn.CosineEmbeddingLoss(reduction=r)(*x, y),
        (floats(3), floats(3).flip(0)),
        SIGNS,
    ),
    "ranking": (lambda r: lambda x, y: nn.MarginRankingLoss(reduction=r)(*x, y), (floats(), floats().flip(0)), SIGNS),
    "triplets": (
        lambda r: lambda x, y: nn.TripletMarginLoss(reduction=r)(*x),
        (floats(3), floats(3).flip(0), floats(3).flip(1)),
        SIGNS,
    ),
    "triplets by a distance": (
        lambda r: (
            lambda x, y: nn.TripletMarginWithDistanceLoss(
                distance_function=lambda a, b: (a - b).abs().sum(1), reduction=r
            )(*x)
        ),
        (floats(3), floats(3).flip(0), floats(3).flip(1)),
        SIGNS,
    ),
    "weighted sum": (
        lambda r: (
            lambda x, y: (
                F.cross_entropy(x[0], y[:, 0].long(), reduction=r).sum()
                + 0.3 * F.mse_loss(x[1], y[:, 1:], reduction=r).sum()
            )
        ),
        (floats(CLASSES), floats(2)),
        torch.cat([LABELS.double().unsqueeze(1), floats(2).flip(0)], 1),
    ),
}
"""Losses of several outputs, as functions of (output, target)."""


@pytest.mark.filterwarnings("ignore:Using a target size", "ignore:reduction")  # torch's
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", CASES)
def test_the_sum_and_its_gradient_are_those_of_single_examples(name: str, reduction: str) -> None:
    build, output, targets = CASES[name]
    criterion = build(reduction)
    output = output.clone().requires_grad_()
    whole = summed_loss(criterion, output, targets)
    singles = torch.stack([criterion(output[i : i + 1], targets[i : i + 1]).sum() for i in range(ROWS)])
    torch.testing.assert_close(whole, singles.sum(), rtol=1e-12, atol=1e-12)
    one, other = (torch.autograd.grad(loss.sum(), output, retain_graph=True)[0] for loss in (whole, singles))
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(each_loss(criterion, output, targets), singles, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", SEVERAL)
def test_losses_of_several_outputs_are_those_of_single_examples(name: str, reduction: str) -> None:
    build, outputs, targets = SEVERAL[name]
    criterion, outputs = build(reduction), tuple(part.clone().requires_grad_() for part in outputs)
    whole = summed_loss(criterion, outputs, targets)
    single = torch.stack(
        [criterion(tuple(part[i : i + 1] for part in outputs), targets[i : i + 1]).sum() for i in range(ROWS)]
    ).sum()
    torch.testing.assert_close(whole, single, rtol=1e-12, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, outputs) for loss in (whole, single)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_divergence_by_batch_mean_is_not_divided_by_the_batch() -> None:
    output, targets = floats(CLASSES).log_softmax(1), floats(CLASSES).flip(0).softmax(1)
    whole = summed_loss(nn.KLDivLoss(reduction="batchmean"), output, targets)
    torch.testing.assert_close(whole, summed_loss(nn.KLDivLoss(reduction="sum"), output, targets))


def test_every_loss_of_torch_is_among_the_cases() -> None:
    """By name; a loss of three arguments is among those of several outputs, or a function of two."""
    listed = {type(build("sum")).__name__ for build, _, _ in CASES.values()}
    functions = {
        "CosineEmbeddingLoss",
        "CTCLoss",
        "GaussianNLLLoss",
        "MarginRankingLoss",
        "TripletMarginLoss",
        "TripletMarginWithDistanceLoss",
    }
    other = {"AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"}  # they hold parameters, so they belong to a model
    losses = {name for name in vars(nn) if name.endswith("Loss")}
    assert losses - functions - other <= listed


def test_an_example_without_a_token_that_counts_has_no_gradient() -> None:
    output = floats(CLASSES, TOKENS).requires_grad_()
    targets = tokens()
    targets[3] = -100
    gradient = torch.autograd.grad(summed_loss(nn.CrossEntropyLoss(), output, targets), output)[0]
    assert not gradient[3].any()
    assert all(bool(gradient[i].any()) for i in (0, 1, 2, 4, 5))


def test_a_loss_that_looks_at_values_is_called_one_by_one() -> None:
    def criterion(output: Tensor, target: Tensor) -> Tensor:
        return output.square().sum() if float(output.detach().sum()) > 1.5 else output.sum()

    output = floats(3).requires_grad_()
    single = torch.stack([criterion(output[i : i + 1], LABELS[i : i + 1]) for i in range(ROWS)]).sum()
    torch.testing.assert_close(summed_loss(criterion, output, LABELS), single)


def test_a_model_may_return_several_tensors() -> None:
    def criterion(output: dict[str, Tensor], target: Tensor) -> Tensor:
        return F.cross_entropy(output["a"], target) + output["b"].square().mean()

    output = {"a": floats(CLASSES).requires_grad_(), "b": floats(2).requires_grad_()}
    single = sum(
        criterion({key: value[i : i + 1] for key, value in output.items()}, LABELS[i : i + 1]) for i in range(ROWS)
    )
    torch.testing.assert_close(summed_loss(criterion, output, LABELS), single)


def test_an_output_without_an_axis_of_examples_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="axis 0"):
        summed_loss(nn.CrossEntropyLoss(), floats(CLASSES)[:4], LABELS)
