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
from torch.utils._pytree import tree_flatten, tree_unflatten

from discreet.clipping import Criterion, modes_kept, private_parameters, training_mode
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.copies import copied
from discreet.core.errors import UnsupportedModel
from discreet.training.preflight.random_rows import Examples

TRIED = 3

_PAIRED = [0, 0, 1]
"""Which targets the tried rows have, if two shall have the same one."""

_NOTHING, _OTHER = 1e-3, 1e-2
"""A gradient is nothing beside one so many times longer; another direction begins at this distance, relative to it. Of
losses that do not compare rows, the gradient of three rows is at most three times the longest of theirs."""

CANNOT = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, AssertionError)
"""Exceptions of models and losses on rows that they cannot take."""

_log = logging.getLogger("discreet")


def gradients(model: nn.Module, criterion: Criterion, rows: Tensor, targets: Tensor) -> list[Tensor]:
    """The loss of an example, or of several as one batch, and its gradients."""
    seed_torch(0)
    with torch.enable_grad():
        return _of_weights(model, criterion(model(rows.clone()), targets.clone()).sum())


def livelier(model: nn.Module, criterion: Criterion, examples: Examples) -> Examples:
    """The examples, with other targets if no gradient comes of theirs: whole numbers from 0 to 2, or signs.

    With `nn.CosineEmbeddingLoss`, say, targets between 0 and 1 have no gradient, and nothing could be compared on them.
    """
    if not examples.targets.is_floating_point():
        return examples
    signs = torch.where(examples.targets < 0.5, -1.0, 1.0).to(examples.targets)
    for targets in (examples.targets, (2.9 * examples.targets).floor(), signs):
        tried = replace(examples, targets=targets)
        try:
            if any(_length(_alone(model, criterion, tried, i)) > 0 for i in range(TRIED)):
                return tried
        except CANNOT:
            continue
    return examples


def refuse_lost_weights(model: nn.Module, criterion: Criterion, examples: Examples) -> None:
    """Refuse a loss that uses weights of `model` beside its output: private rows go through a copy, whose weights are
    others."""
    seen, loss = copied(model, criterion, own=True)
    with modes_kept(seen), torch.random.fork_rng():
        training_mode(seen)
        try:
            if not _uses_weights(model, seen, loss, examples):
                return
        except CANNOT:
            return
    raise UnsupportedModel(
        f"{named(criterion)} uses weights of the model beside its output, and no gradient would come of it: an L2 "
        "penalty is the optimizer's weight_decay; what else the loss needs, `forward` returns, one entry for each row"
    )


def _uses_weights(model: nn.Module, seen: nn.Module, criterion: Criterion, examples: Examples) -> bool:
    """Whether weights of `model` have a gradient, given what its copy `seen` returned."""
    seed_torch(0)
    with torch.no_grad():
        output = seen(examples.inputs[:1].clone())
    with torch.enable_grad():
        return _length(_of_weights(model, criterion(output, examples.targets[:1].clone()).sum())) > 0


def named(criterion: Criterion) -> str:
    """The loss in messages."""
    return f"the loss ({getattr(criterion, '__name__', type(criterion).__name__)})"


def check_alone(model: nn.Module, criterion: Criterion, examples: Examples) -> None:
    """Refuse a loss that only compares rows; warn of one that mixes them, or whose weights of classes cancel.

    What fails on random rows passes unchecked.
    """
    described = named(criterion)
    if _tried(_only_compares, model, criterion, examples):
        raise UnsupportedModel(
            f"{described} compares the rows of a batch: a row alone has no gradient, and each row is clipped alone; "
            "make what is compared one row (two views of it, a pair, a triplet)"
        )
    if _weights_cancel(criterion, model, examples):
        _log.warning(
            "the class weights of %s have no effect: each row is taken alone, and reduction='mean' divides it by its "
            "own weight; take reduction='sum', with weights of at most 1, as larger ones meet the clip norm",
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
    except CANNOT:
        return False


def _only_compares(model: nn.Module, criterion: Criterion, examples: Examples) -> bool:
    """Whether rows have a gradient as a batch, and next to none alone."""
    paired = replace(examples, targets=examples.targets[:TRIED][_PAIRED])
    for tried in (examples, paired):
        alone = max(_length(_alone(model, criterion, tried, i)) for i in range(TRIED))
        together = _length(gradients(model, criterion, tried.inputs[:TRIED], tried.targets[:TRIED]))
        if not alone <= _NOTHING * together:
            return False
        if 0 < together < torch.inf:
            return True
    return False


def _weights_cancel(criterion: Criterion, model: nn.Module, examples: Examples) -> bool:
    if not isinstance(criterion, nn.CrossEntropyLoss | nn.NLLLoss) or examples.targets.dim() != 1:
        return False
    if criterion.weight is None or criterion.reduction != "mean" or examples.targets.is_floating_point():
        return False
    return bool((criterion.weight != criterion.weight.flatten()[0]).any())


def _mixes(model: nn.Module, criterion: Criterion, examples: Examples) -> bool:
    """Whether in a batch a row's output has a gradient of another direction than alone."""
    seed_torch(0)
    with torch.no_grad():
        rows = [tree_flatten(model(examples.inputs[i : i + 1].clone())) for i in range(TRIED)]
    if not all(isinstance(leaf, Tensor) and leaf.dim() and len(leaf) == 1 for leaves, _ in rows for leaf in leaves):
        return False
    whole = [torch.cat(parts) for parts in zip(*(leaves for leaves, _ in rows), strict=True)]
    return any(
        _turned(criterion, whole, rows[0][1], targets)
        for targets in (examples.targets[:TRIED], examples.targets[:TRIED][_PAIRED])
    )


def _turned(criterion: Criterion, whole: list[Tensor], shape: Any, targets: Tensor) -> bool:
    def found(leaves: list[Tensor], wanted: Tensor, seed: int = 0) -> list[Tensor]:
        seed_torch(seed)
        given = [leaf.detach().clone().requires_grad_(leaf.is_floating_point()) for leaf in leaves]
        moved = [leaf for leaf in given if leaf.requires_grad]
        with torch.enable_grad():
            loss = criterion(tree_unflatten(given, shape), wanted.clone()).sum()
        parts = torch.autograd.grad(loss, moved, allow_unused=True) if moved and loss.requires_grad else ()
        return [torch.zeros_like(leaf) if part is None else part for leaf, part in zip(moved, parts, strict=False)]

    together = found(whole, targets)
    if not all(map(torch.equal, together, found(whole, targets, 1))):  # the loss draws random numbers
        return False
    return any(
        _directed_otherwise(part[i : i + 1].double(), one.double())
        for i in range(TRIED)
        for part, one in zip(together, found([leaf[i : i + 1] for leaf in whole], targets[i : i + 1]), strict=False)
    )


def _directed_otherwise(part: Tensor, one: Tensor) -> bool:
    """Whether a gradient is no multiple, with a factor that is not negative, of another."""
    if not part.isfinite().all() or not one.isfinite().all():
        return False
    square = float(one.square().sum())
    factor = max(0.0, float((part * one).sum()) / square) if square else 0.0
    return float((part - factor * one).norm()) > _OTHER * float(part.norm())


def _alone(model: nn.Module, criterion: Criterion, examples: Examples, i: int) -> list[Tensor]:
    return gradients(model, criterion, examples.inputs[i : i + 1], examples.targets[i : i + 1])


def _of_weights(model: nn.Module, loss: Tensor) -> list[Tensor]:
    parameters = list(private_parameters(model).values())
    found = torch.autograd.grad(loss, parameters, allow_unused=True) if loss.requires_grad else ()
    return [loss.detach(), *(torch.zeros(1) if part is None else part for part in found)]


def _length(found: list[Tensor]) -> float:
    """The L2 norm of a gradient, which follows the loss."""
    return math.sqrt(sum(float(part.double().square().sum()) for part in found[1:]))
