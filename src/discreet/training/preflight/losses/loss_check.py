"""Checks of the loss on random examples: it keeps no state, and means the same where rows are taken alone.

With a running mean in the loss, the gradient of an example would depend on earlier ones. No engine prevents that, so it
is always checked: some random examples alone, then others with far larger numbers, then the first ones again.

A loss that compares examples (contrastive losses) is safe here, since it sees one at a time, but teaches nothing
(`loss_alone.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, modes_kept, training_mode
from discreet.clipping.admission.example_axes import moved, times
from discreet.clipping.capture.repeatable import repeatable
from discreet.clipping.digests import state_digests
from discreet.core.errors import CANNOT_TAKE, UnsupportedModel
from discreet.training.preflight.losses.loss_alone import check_alone, refuse_failing_alone, refuse_without_gradient
from discreet.training.preflight.losses.loss_trials import TRIED, gradients, named
from discreet.training.preflight.losses.unused_weights import warn_of_unused
from discreet.training.preflight.random_rows import Examples

_FACTORS = (1.0, 1e3, 1e6)
"""Factors by which the numbers of the other examples are larger."""

_log = logging.getLogger("discreet")


def check_loss(model: nn.Module, criterion: Criterion, examples: Examples) -> None:
    """Refuse a loss, or a hook of the model, that keeps state from one example to the next, and a loss that
    teaches nothing, or not what it says, where rows are taken alone.

    A model or loss that cannot take random rows passes unchecked. The model's weights, and the tensors of a loss that
    is a module, are restored.
    """
    rows = [(examples.inputs[i : i + 1], examples.targets[i : i + 1]) for i in range(2 * TRIED)]
    described = named(criterion)
    if isinstance(criterion, nn.Module) and (own := [name for name, _ in criterion.named_parameters()]):
        _log.warning("parameters of %s are not trained: %s; make them part of the model", described, ", ".join(own))
    with modes_kept(model), torch.random.fork_rng(), repeatable(), _put_back(criterion) as digests:
        training_mode(model)
        try:
            first = [gradients(model, criterion, *row) for row in rows[:TRIED]]
        except CANNOT_TAKE as error:
            refuse_failing_alone(model, criterion, examples, error)
            return
        if all(len(one) == 1 for one in first):
            refuse_without_gradient(model, criterion, examples)
        for factor in _FACTORS:
            for row in rows[TRIED:]:
                try:
                    gradients(model, criterion, *(times(part, factor) for part in row))
                except CANNOT_TAKE:
                    break
        again = (gradients(model, criterion, *row) for row in rows[:TRIED])  # one at a time, as gradients may be large
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
    with modes_kept(model), torch.random.fork_rng(), repeatable(), _put_back(criterion):
        training_mode(model)
        check_alone(model, criterion, examples)
        warn_of_unused(model, criterion, examples)
    if not any(all(bool(part.isfinite().all()) for part in one) for one in first):
        _log.warning(
            "%s or its gradient is NaN or infinite on every random row; if it is so on private rows too, nothing is "
            "learnt from them, as a gradient that is not finite counts as zero",
            described,
        )


def _differ(first: list[Tensor], again: list[Tensor]) -> bool:
    pairs = zip(first, again, strict=False)
    return len(first) != len(again) or any(one.shape != other.shape or moved(one, other) for one, other in pairs)


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
