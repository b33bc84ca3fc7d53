"""Checks that a loss means the same when every row is taken alone, on random rows.

Each row's gradient is clipped by itself, so a loss sees one row at a time. What else it makes of a batch is lost: it
compares rows, weighs them by what else is there, or adds a term of the weights. None of it harms privacy; a run would
be paid for and learn something else, or nothing.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from discreet.clipping import Criterion
from discreet.clipping.losses import is_of_torch
from discreet.clipping.seeding import seed_torch
from discreet.core.errors import CANNOT_TAKE, UnsupportedModel, first_line
from discreet.training.preflight.losses.loss_trials import TRIED, gradients, kinds, length, named, of_row
from discreet.training.preflight.random_rows import UNITS, Examples

_PAIRED = [0, 0, 1]
"""Which targets the tried rows have, if two shall have the same one."""

_NOTHING, _OTHER = 1e-3, 1e-2
"""A gradient is nothing beside one so many times longer; another direction begins at this distance, relative to it. Of
losses that do not compare rows, the gradient of three rows is at most three times the longest of theirs."""

FAILS_ALONE = "a row alone fails where a batch does not, and each row is taken alone"
LOOK_FOR = (
    "look for a squeeze() without a dimension, statistics over the batch, or an error where a row has no label, in the "
    "model and the loss"
)

_log = logging.getLogger("discreet")


def refuse_failing_alone(model: nn.Module, criterion: Criterion, examples: Examples, error: Exception) -> None:
    """Refuse a model or loss that fails on a row alone with `error`, and takes several rows: each would add nothing."""
    try:
        gradients(model, criterion, examples.inputs[:TRIED], examples.targets[:TRIED])
    except CANNOT_TAKE:
        return  # random rows are not what they take
    said = first_line(error)
    raise UnsupportedModel(f"{FAILS_ALONE}: {said}; {LOOK_FOR}")


def refuse_without_gradient(model: nn.Module, criterion: Criterion, examples: Examples) -> None:
    """Refuse a loss that autograd can follow to the weights for none of the examples, whatever their targets: a run
    would be paid for and add noise to zeros."""
    tried, outputs = False, False
    for kind in kinds(examples):
        for i in range(len(examples.inputs)):
            try:
                if len(of_row(model, criterion, kind, i)) > 1:
                    return
                tried, outputs = True, outputs or _requires(model, kind.inputs[i : i + 1])
            except CANNOT_TAKE:
                break
    if not tried:
        return
    what = named(criterion) if outputs else "what the model returns"
    raise UnsupportedModel(
        f"no gradient comes of {what}: autograd cannot follow it to a trained weight; leave out .detach(), .item(), "
        "NumPy, torch.no_grad and argmax (a row without a loss may return output.sum() * 0)"
    )


def _requires(model: nn.Module, rows: Tensor) -> bool:
    """Whether an output of the model requires a gradient; also true of an output that is no tensor."""
    with torch.enable_grad():
        leaves = tree_leaves(model(rows.clone()))
    return any(not isinstance(leaf, Tensor) or leaf.requires_grad for leaf in leaves)


def check_alone(model: nn.Module, criterion: Criterion, examples: Examples) -> None:
    """Refuse a loss that only compares rows; warn of one in which they meet otherwise, or whose class weights cancel.

    What fails on random rows passes unchecked.
    """
    described = named(criterion)
    if _tried(_only_compares, model, criterion, examples):
        raise UnsupportedModel(
            f"{described} compares the rows of a batch: a row alone has no gradient, and each row is clipped alone; "
            "make what is compared one row (two views of it, a pair, a triplet)"
        )
    factors = _factors(model, criterion, examples)
    if _weights_cancel(criterion, examples):
        _log.warning(
            "the class weights of %s have no effect: each row is taken alone, and reduction='mean' divides it by its "
            "own weight; take reduction='sum', with weights of at most 1, as larger ones meet the clip norm",
            described,
        )
    elif factors and 0 < (1 + _OTHER) * min(factors) < max(factors):
        _log.warning(
            "in %s how much a row counts depends on the others of its batch, as with class weights under a mean over "
            "them, or a root of a mean; here each row is taken alone, where such weights cancel: divide by a constant "
            "(reduction='sum', with weights of at most 1, as larger ones meet the clip norm)",
            described,
        )
    elif factors and min(factors) == 0 < max(factors):
        _log.warning(
            "%s leaves out some rows of a batch because of the others, all but the hardest, say, or the largest "
            "losses; here each row is taken alone, so none is left out: to weigh hard rows, take a function of a row's "
            "own loss (focal loss, or a loss that is clamped)",
            described,
        )
    elif _tried(_mixes, model, criterion, examples):
        _log.warning(
            "%s of a batch is not made of the losses of its rows: it compares, ranks or pools them; here each row is "
            "taken alone, as in loss(output[:1], target[:1]), so something else is learnt",
            described,
        )


def _tried(
    check: Callable[[nn.Module, Criterion, Examples], bool], model: nn.Module, criterion: Criterion, examples: Examples
) -> bool:
    try:
        return check(model, criterion, examples)
    except CANNOT_TAKE:
        return False


def _only_compares(model: nn.Module, criterion: Criterion, examples: Examples) -> bool:
    """Whether rows have a gradient as a batch, and next to none alone."""
    paired = replace(examples, targets=examples.targets[:TRIED][_PAIRED])
    for tried in (examples, paired):
        lengths = [length(of_row(model, criterion, tried, i)) for i in range(TRIED)]
        together = length(gradients(model, criterion, tried.inputs[:TRIED], tried.targets[:TRIED]))
        alone = max(lengths) if any(map(math.isfinite, lengths)) else 0.0  # the variance of one row is NaN
        if not alone <= _NOTHING * together:
            return False
        if 0 < together < torch.inf:
            return True
    return False


def _weights_cancel(criterion: Criterion, examples: Examples) -> bool:
    if not isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss) or examples.targets.dim() != 1:
        return False
    if criterion.weight is None or criterion.reduction != "mean" or examples.targets.is_floating_point():
        return False
    return bool((criterion.weight != criterion.weight.flatten()[0]).any())


def _mixes(model: nn.Module, criterion: Criterion, examples: Examples) -> bool:
    """Whether in a batch a row's output has a gradient of another direction than alone."""
    for targets in (examples.targets[:TRIED], examples.targets[:TRIED][_PAIRED]):
        pairs = _both_ways(model, criterion, examples.inputs[:TRIED], targets)
        if any(_directed_otherwise(*pair) for row in pairs for pair in row):
            return True
    return False


def _factors(model: nn.Module, criterion: Criterion, examples: Examples) -> list[float]:
    """The gradient of each row's output in a batch, as a multiple of that alone; empty if one is no multiple, or the
    loss fails.

    Not for targets of several whole numbers: of tokens there are as many as a row has, and a mean over them is known.
    """
    targets = examples.targets[:UNITS]
    if not targets.is_floating_point() and targets.dim() > 1:
        return []
    factors = []
    try:
        pairs = _both_ways(model, criterion, examples.inputs[:UNITS], targets)
    except CANNOT_TAKE:
        return []
    for row in pairs:
        part, one = (torch.cat([leaf.flatten() for leaf in leaves]) for leaves in zip(*row, strict=True))
        if _directed_otherwise(part, one):
            return []
        if float(one.norm()) > 0 and part.isfinite().all():
            factors.append(_factor(part, one))
    return factors


def _both_ways(
    model: nn.Module, criterion: Criterion, rows: Tensor, targets: Tensor
) -> list[list[tuple[Tensor, Tensor]]]:
    """For each row, the gradients of all that the model returns for it: in the batch, and alone. Without rows if the
    model returns something else, or if the loss draws random numbers."""
    seed_torch(0)
    with torch.no_grad():
        each = [tree_flatten(model(rows[i : i + 1].clone())) for i in range(len(rows))]
    if not all(isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == 1 for leaves, _ in each for leaf in leaves):
        return []
    whole, shape = [torch.cat(parts) for parts in zip(*(leaves for leaves, _ in each), strict=True)], each[0][1]
    if is_of_torch(criterion) and whole[0].shape != targets.shape and whole[0].numel() == targets.numel():
        return []  # a batch would be broadcast to all pairs, of which torch warns; a row alone is as it is meant
    together = _of_outputs(criterion, whole, shape, targets)
    if not all(map(torch.equal, together, _of_outputs(criterion, whole, shape, targets, seed=1))):
        return []

    def pairs(i: int) -> list[tuple[Tensor, Tensor]]:
        alone = _of_outputs(criterion, [leaf[i : i + 1] for leaf in whole], shape, targets[i : i + 1])
        return [(part[i : i + 1].double(), one.double()) for part, one in zip(together, alone, strict=False)]

    return [found for i in range(len(rows)) if (found := pairs(i))]


def _of_outputs(criterion: Criterion, leaves: list[Tensor], shape: Any, targets: Tensor, seed: int = 0) -> list[Tensor]:
    """The gradients of the loss for what the model returned."""
    seed_torch(seed)
    given = [leaf.detach().clone().requires_grad_(leaf.is_floating_point()) for leaf in leaves]
    moved = [leaf for leaf in given if leaf.requires_grad]
    with torch.enable_grad():
        passed = [leaf.clone() for leaf in given]  # to which a loss may write
        loss = criterion(tree_unflatten(passed, shape), targets.clone()).sum()
    parts = torch.autograd.grad(loss, moved, allow_unused=True) if moved and loss.requires_grad else ()
    return [torch.zeros_like(leaf) if part is None else part for leaf, part in zip(moved, parts, strict=False)]


def _directed_otherwise(part: Tensor, one: Tensor) -> bool:
    """Whether a gradient is no multiple, with a factor that is not negative, of another."""
    if not part.isfinite().all() or not one.isfinite().all():
        return False
    return float((part - max(0.0, _factor(part, one)) * one).norm()) > _OTHER * float(part.norm())


def _factor(part: Tensor, one: Tensor) -> float:
    """The coefficient of a gradient in another: their inner product over the square of its length."""
    square = float(one.square().sum())
    return float((part * one).sum()) / square if square else 0.0
