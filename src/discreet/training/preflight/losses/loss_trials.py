"""Losses and their gradients on random rows, one at a time or several as a batch: what the checks of a loss share."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, private_parameters
from discreet.clipping.seeding import seed_torch
from discreet.core.errors import CANNOT_TAKE
from discreet.training.preflight.random_rows import Examples

TRIED = 3
"""Number of random rows that losses are tried on."""


def gradients(model: nn.Module, criterion: Criterion, rows: Tensor, targets: Tensor) -> list[Tensor]:
    """The loss of an example, or of several as one batch, and its gradients."""
    return of_weights(model, loss_of(model, criterion, rows, targets))


def loss_of(model: nn.Module, criterion: Criterion, rows: Tensor, targets: Tensor) -> Tensor:
    """The loss of an example, or the sum of those of several as one batch, with the same random numbers each time."""
    seed_torch(0)
    with torch.enable_grad():
        total: Tensor = criterion(model(rows.clone()), targets.clone()).sum()
    return total


def of_row(model: nn.Module, criterion: Criterion, examples: Examples, i: int) -> list[Tensor]:
    """The loss of example i alone, and its gradient."""
    return gradients(model, criterion, examples.inputs[i : i + 1], examples.targets[i : i + 1])


def of_weights(model: nn.Module, loss: Tensor) -> list[Tensor]:
    """The loss and its gradients by parameters: zeros for one that it does not reach, none where it has no graph."""
    parameters = list(private_parameters(model).values())
    found = torch.autograd.grad(loss, parameters, allow_unused=True) if loss.requires_grad else ()
    return [loss.detach(), *(torch.zeros(1) if part is None else part for part in found)]


def length(found: list[Tensor]) -> float:
    """The L2 norm of a gradient, which follows the loss."""
    return math.sqrt(sum(float(part.double().square().sum()) for part in found[1:]))


def named(criterion: Criterion) -> str:
    """The loss in messages."""
    return f"the loss ({getattr(criterion, '__name__', type(criterion).__name__)})"


def livelier(model: nn.Module, criterion: Criterion, examples: Examples) -> Examples:
    """The examples, with other targets if some of theirs have no gradient and more of the others have: whole numbers
    from 0 to 2, or signs.

    With `nn.CosineEmbeddingLoss`, say, targets between 0 and 1 have no gradient, and nothing could be compared on them.
    """
    if not examples.targets.is_floating_point():
        return examples
    most, found = 0, examples
    for tried in kinds(examples):
        moving = _moving(model, criterion, tried)
        if moving > most:
            most, found = moving, tried
        if most == TRIED:
            break
    return found


def _moving(model: nn.Module, criterion: Criterion, examples: Examples) -> int:
    """The number of tried rows that have a gradient; 0 if model or loss fails on one of them."""
    try:
        return sum(length(of_row(model, criterion, examples, i)) > 0 for i in range(TRIED))
    except CANNOT_TAKE:
        return 0


def kinds(examples: Examples) -> list[Examples]:
    """The examples with their targets, and with others: whole numbers from 0 on, one for each example; where they are
    real numbers, whole ones from 0 to 2, and signs."""
    drawn = examples.targets
    if not drawn.is_floating_point():
        counted = torch.arange(len(drawn), device=drawn.device).to(drawn.dtype)
        return [examples, replace(examples, targets=counted.reshape(-1, *[1] * (drawn.dim() - 1)).expand_as(drawn))]
    signs = torch.where(drawn < 0.5, -1.0, 1.0).to(drawn)
    return [examples, *(replace(examples, targets=one) for one in ((2.9 * drawn).floor(), signs))]
