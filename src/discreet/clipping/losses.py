"""The sum of the losses of a batch, each computed as if its example were alone.

The loss of example i is `criterion(output[i : i + 1], target[i : i + 1]).sum()`. Losses of torch.nn are computed
element by element and reduced over each example's own elements; a mean over the batch is never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from discreet.clipping.valued import ValuedCrossEntropy
from discreet.clipping.vectorise import vectorised_call
from discreet.core.errors import UnsupportedModel

Criterion = Callable[[Any, Tensor], Tensor]
"""A loss of (model output, target), as in torch.nn; it is called for one example at a time."""

_ELEMENTWISE: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.MSELoss: lambda c, x, y: F.mse_loss(x, y, reduction="none"),
    nn.L1Loss: lambda c, x, y: F.l1_loss(x, y, reduction="none"),
    nn.SmoothL1Loss: lambda c, x, y: F.smooth_l1_loss(x, y, reduction="none", beta=c.beta),
    nn.HuberLoss: lambda c, x, y: F.huber_loss(x, y, reduction="none", delta=c.delta),
    nn.SoftMarginLoss: lambda c, x, y: F.soft_margin_loss(x, y, reduction="none"),
}
"""Losses with one value per element of output and target, which have the same shape."""


_TORCHS = frozenset(id(one) for one in vars(nn.modules.loss).values() if isinstance(one, type))
"""The losses of torch.nn. Which module a class says that it is of, anybody may set."""

after_each: ContextVar[Callable[[], None] | None] = ContextVar("after_each", default=None)
"""A function to call after each example where a loss is called for one example at a time."""


def is_of_torch(criterion: object) -> bool:
    """Whether a loss is one of torch.nn, which keep no state, without hooks or a `forward` of its own."""
    if id(type(criterion)) not in _TORCHS:
        return False
    held = vars(criterion).get
    hooked = held("_forward_hooks") or held("_forward_pre_hooks")
    return not (hooked or held("_backward_hooks") or held("_backward_pre_hooks") or "forward" in vars(criterion))


def holds_nothing(criterion: object) -> bool:
    """Whether a loss is one of torch.nn, and has no weights of classes, to which somebody might write."""
    held = vars(criterion).get("_buffers") if is_of_torch(criterion) else None
    return held is not None and all(one is None for one in held.values())


def summed_loss(criterion: Criterion, output: Any, targets: Tensor) -> Tensor:
    """The sum over examples of `criterion(output of one example, target of one example).sum()`; shape ()."""
    losses = _losses(criterion, output, targets, each=False)
    return losses.sum() if losses.dim() else losses


def each_loss(criterion: Criterion, output: Any, targets: Tensor) -> Tensor:
    """The loss of each example: the terms of `summed_loss`, shape (batch,)."""
    return _losses(criterion, output, targets, each=True)


def _losses(criterion: Criterion, output: Any, targets: Tensor, *, each: bool) -> Tensor:
    """The loss of each example; without `each`, possibly their sum, if torch can form it at once."""
    if isinstance(output, Tensor):
        if output.dim() == 0 or output.shape[0] != len(targets):
            raise UnsupportedModel(
                f"the model returned shape {tuple(output.shape)} for a batch of {len(targets)}; "
                "examples must lie along axis 0"
            )
        known = _of_torch_nn(criterion, output, targets, each=each)
        if known is not None:
            return known
    _refuse_other_parts(output)

    def one(part: Any, target: Tensor) -> Tensor:
        return criterion(tree_map_only(Tensor, lambda leaf: leaf.unsqueeze(0), part), target.unsqueeze(0)).sum()

    axes = tree_map(lambda leaf: 0 if isinstance(leaf, Tensor) else None, output)

    def together(start: int, stop: int) -> Tensor:
        less = stop - start < len(targets)
        part = tree_map_only(Tensor, lambda leaf: leaf[start:stop], output) if less else output
        given = targets[start:stop].clone()  # the loss may write to its target
        losses: Tensor = vectorised_call(one, (axes, 0), part, given)
        return losses

    def alone(i: int) -> Tensor:
        try:  # it may be another example that failed, and whether one does is not for others to tell
            found = together(i, i + 1)[0]
        except (RuntimeError, ValueError):
            found = _by_itself(one, tree_map_only(Tensor, lambda leaf: leaf[i].clone(), output), targets[i].clone())
        if (look := after_each.get()) is not None:
            look()
        return found

    try:
        return together(0, len(targets))
    except (RuntimeError, ValueError):  # not every function can be vectorised, but all can be called one by one
        return torch.stack([alone(i) for i in range(len(targets))])


def _refuse_other_parts(output: Any) -> None:
    """Refuse what cannot be parted into examples: a number may come from all of them, and so may what an object has."""
    for leaf in tree_leaves(output):
        if leaf is not None and not isinstance(leaf, Tensor):
            raise UnsupportedModel(
                f"the model returns an object of type {type(leaf).__name__}, of which nobody can tell what belongs to "
                "which row; return tensors with the rows along axis 0, alone or in a tuple, a list or a dictionary, or "
                "use engine='vmap'"
            )


def _by_itself(loss: Callable[[Any, Tensor], Tensor], part: Any, target: Tensor) -> Tensor:
    """The loss of one example's output `part`, which is given without its graph: through that a loss could find what
    the model made of all examples. The result has the loss's value and gradient, and none of its graph."""
    leaves = [leaf for leaf in tree_leaves(part) if isinstance(leaf, Tensor) and leaf.requires_grad]
    given = {id(leaf): leaf.detach().requires_grad_() for leaf in leaves}
    copies = {place: one.clone() for place, one in given.items()}  # to which a loss may write
    value = loss(tree_map(lambda leaf: copies.get(id(leaf), leaf), part), target)
    if not (leaves and value.requires_grad):  # a model that returns other objects is refused where rows may mix
        return value
    found = torch.autograd.grad(value, [*given.values()], allow_unused=True)
    result = value.detach()
    for leaf, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            along = torch.real(leaf * gradient.conj()).sum()  # whose gradient is this one
            result = result + (along - along.detach())
    return result


def _of_torch_nn(criterion: Any, output: Tensor, targets: Tensor, *, each: bool) -> Tensor | None:
    """The losses of the examples, or their sum, for known losses of torch.nn; None for others."""
    kind = type(criterion)
    if kind is not ValuedCrossEntropy and not is_of_torch(criterion):  # a hook of a loss, or a `forward` put into it
        return None
    if kind in (nn.CrossEntropyLoss, nn.NLLLoss, ValuedCrossEntropy):
        return _of_classes(criterion, output, targets, each=each)
    if output.shape != targets.shape or output.dtype != targets.dtype:
        return None
    if kind in _ELEMENTWISE:
        return _reduced(criterion, _ELEMENTWISE[kind](criterion, output, targets))
    if kind is nn.BCEWithLogitsLoss and criterion.weight is None and criterion.pos_weight is None:
        return _reduced(criterion, F.binary_cross_entropy_with_logits(output, targets, reduction="none"))
    if kind is nn.BCELoss and criterion.weight is None:
        return _reduced(criterion, F.binary_cross_entropy(output, targets, reduction="none"))
    return None


def _reduced(criterion: Any, values: Tensor) -> Tensor:
    """The mean or sum of each example's values: shape (batch,)."""
    values = values.flatten(1) if values.dim() > 1 else values.unsqueeze(1)
    return values.mean(1) if criterion.reduction == "mean" else values.sum(1)


def _of_classes(criterion: Any, output: Tensor, targets: Tensor, *, each: bool) -> Tensor | None:
    """Cross entropy of class indices without class weights; means are over the tokens that are not ignored."""
    if criterion.weight is not None or targets.is_floating_point() or output.dim() < 2:
        return None
    averaged = criterion.reduction == "mean" and output.dim() > 2  # the mean of one token is its value, or 0 if ignored
    shape, last = targets.shape, output.movedim(1, -1)
    if output.dim() > 2 and last.shape[:-1] == shape and last.is_contiguous():  # losses of single tokens are faster
        output, targets = last.flatten(0, -2), targets.flatten()
    given = {"reduction": "none" if averaged or each else "sum", "ignore_index": criterion.ignore_index}
    if type(criterion) is nn.NLLLoss:
        values = F.nll_loss(output, targets, **given)
    else:
        values = F.cross_entropy(output, targets, label_smoothing=criterion.label_smoothing, **given)
    if values.dim():
        values, targets = values.view(shape), targets.view(shape)
    if not averaged:
        return values.flatten(1).sum(1) if values.dim() > 1 else values
    values, counted = values.reshape(len(values), -1), (targets != criterion.ignore_index).reshape(len(values), -1)
    means: Tensor = values.sum(1) / counted.sum(1).clamp(min=1)
    return means
