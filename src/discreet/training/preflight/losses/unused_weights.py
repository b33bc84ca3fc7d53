"""A warning of trained weights to which no gradient comes: a run would add noise to them, and nothing else."""

from __future__ import annotations

import logging

import torch
from torch import nn

from discreet.clipping import Criterion, private_parameters
from discreet.core.errors import CANNOT_TAKE
from discreet.training.preflight.losses.loss_trials import loss_of
from discreet.training.preflight.random_rows import Examples

_NAMED = 3
"""The most weights that are named."""

_log = logging.getLogger("discreet")


def warn_of_unused(model: nn.Module, criterion: Criterion, examples: Examples) -> None:
    """Warn of trained weights to which no gradient comes from the loss of any example, if one comes to others."""
    trained = private_parameters(model)
    unused = dict(trained)
    tried = 0
    for i in range(len(examples.inputs)):
        try:
            loss = loss_of(model, criterion, examples.inputs[i : i + 1], examples.targets[i : i + 1])
            found = torch.autograd.grad(loss, list(unused.values()), allow_unused=True)
        except CANNOT_TAKE:
            continue
        unused = {name: weight for (name, weight), part in zip(unused.items(), found, strict=True) if part is None}
        if not unused:
            return
        tried += 1
    if tried and len(unused) < len(trained):
        names = ", ".join(list(unused)[:_NAMED]) + (f" and {len(unused) - _NAMED} more" if len(unused) > _NAMED else "")
        _log.warning(
            "no gradient comes to %s from any of %d random rows, so a run would only add noise to them; freeze weights "
            "that are not used (requires_grad_(False)), and look for .detach(), torch.no_grad or a checkpoint with "
            "use_reentrant=True before those that are",
            names,
            tried,
        )
