"""Checks of the loss on random examples: it keeps no state, and an example has a gradient without others.

With a running mean in the loss, the gradient of an example would depend on earlier ones. No engine prevents that, so it
is always checked: some random examples alone, then others with far larger numbers, then the first ones again.

A loss that compares examples (contrastive losses) is safe here, since it sees one at a time, but teaches nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, modes_kept, private_parameters, training_mode
from discreet.clipping.admission.example_axes import is_whole, moved
from discreet.clipping.capture.repeatable import repeatable
from discreet.clipping.digests import state_digests
from discreet.clipping.seeding import seed_torch
from discreet.core.errors import UnsupportedModel
from discreet.training.preflight.random_rows import Examples

_TRIED = 3
_FACTORS = (1.0, 1e3, 1e6)
"""Factors by which the numbers of the other examples are larger."""

_log = logging.getLogger("discreet")

_CANNOT = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, AssertionError)
"""Exceptions of models and losses on rows that they cannot take."""


def check_loss(model: nn.Module, criterion: Criterion, examples: Examples) -> None:
    """Refuse a loss, or a hook of the model, that keeps state from one example to the next, and a loss that only
    compares examples with one another.

    A model or loss that cannot take random rows passes unchecked. The model's weights, and the tensors of a loss that
    is a module, are restored.
    """
    rows = [(examples.inputs[i : i + 1], examples.targets[i : i + 1]) for i in range(2 * _TRIED)]
    described = f"the loss ({getattr(criterion, '__name__', type(criterion).__name__)})"
    if isinstance(criterion, nn.Module) and (own := [name for name, _ in criterion.named_parameters()]):
        _log.warning("parameters of %s are not trained: %s; make them part of the model", described, ", ".join(own))
    with modes_kept(model), torch.random.fork_rng(), repeatable(), _put_back(criterion) as digests:
        training_mode(model)
        try:
            first = [_alone(model, criterion, *row) for row in rows[:_TRIED]]
        except _CANNOT:
            return
        for factor in _FACTORS:
            for row in rows[_TRIED:]:
                try:
                    _alone(model, criterion, *(_times(part, factor) for part in row))
                except _CANNOT:
                    break
        again = (_alone(model, criterion, *row) for row in rows[:_TRIED])  # one at a time, as gradients may be large
        keeps = [_differ(*pair) for pair in zip(first, again, strict=True)]
        if digests != _digests(criterion):
            raise UnsupportedModel(
                f"a buffer or parameter of {described} changes when it is called, so private data would enter it; "
                "remove what writes to it"
            )
    if any(keeps):
        raise UnsupportedModel(
            f"{described}, or a hook of the model, keeps state between calls: what it makes of an example depends on "
            "the examples before it; remove the state (running means, counters, a generator of its own)"
        )
    if not any(_moves(one) for one in first) and _together(model, criterion, examples):
        raise UnsupportedModel(
            f"{described} compares the rows of a batch: a row alone has no gradient, and each row is clipped alone; "
            "make what is compared one row (two views of it, a pair, a triplet)"
        )
    if not any(all(bool(part.isfinite().all()) for part in one) for one in first):
        _log.warning(
            "%s or its gradient is NaN or infinite on every random row; if it is so on private rows too, nothing is "
            "learnt from them, as a gradient that is not finite counts as zero",
            described,
        )


def _alone(model: nn.Module, criterion: Criterion, row: Tensor, target: Tensor) -> list[Tensor]:
    """The loss of an example, or of several as one batch, and its gradients."""
    seed_torch(0)
    with torch.enable_grad():
        loss = criterion(model(row.clone()), target.clone()).sum()
    parameters = list(private_parameters(model).values())
    found = torch.autograd.grad(loss, parameters, allow_unused=True) if loss.requires_grad else ()
    return [loss.detach(), *(torch.zeros(1) if part is None else part for part in found)]


def _together(model: nn.Module, criterion: Criterion, examples: Examples) -> bool:
    """Whether the tried examples have a gradient as one batch."""
    with modes_kept(model), torch.random.fork_rng(), _put_back(criterion):
        training_mode(model)
        try:
            return _moves(_alone(model, criterion, examples.inputs[:_TRIED], examples.targets[:_TRIED]))
        except _CANNOT:
            return False


def _moves(found: list[Tensor]) -> bool:
    """Whether a gradient, which follows the loss, is not zero."""
    return any(bool(part.any()) for part in found[1:])


def _differ(first: list[Tensor], again: list[Tensor]) -> bool:
    pairs = zip(first, again, strict=False)
    return len(first) != len(again) or any(one.shape != other.shape or moved(one, other) for one, other in pairs)


def _times(part: Tensor, factor: float) -> Tensor:
    return part if is_whole(part) else part * factor


def _digests(criterion: Criterion) -> dict[str, str]:
    return state_digests(criterion) if isinstance(criterion, nn.Module) else {}


@contextmanager
def _put_back(criterion: Criterion) -> Iterator[dict[str, str]]:
    """Yields the digests of the loss's tensors; afterwards restores the tensors."""
    module = criterion if isinstance(criterion, nn.Module) else None
    kept = {} if module is None else {name: part.detach().clone() for name, part in module.state_dict().items()}
    try:
        yield _digests(criterion)
    finally:
        with torch.no_grad():
            for name, part in {} if module is None else module.state_dict().items():
                if name in kept and part.shape == kept[name].shape:
                    part.copy_(kept[name])
