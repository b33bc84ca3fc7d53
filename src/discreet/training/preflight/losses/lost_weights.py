"""A check that a loss uses no weights of the model beside its output: their gradient would be lost without a word.

Private rows go through a copy of the model, and engines differentiate the model's output only.
"""

from __future__ import annotations

import torch
from torch import nn

from discreet.clipping import Criterion, modes_kept, training_mode
from discreet.clipping.admission.mixing import moved_weights
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.copies import copied
from discreet.core.errors import CANNOT_TAKE, UnsupportedModel
from discreet.training.preflight.losses.loss_trials import length, named, of_weights
from discreet.training.preflight.random_rows import Examples


def refuse_lost_weights(model: nn.Module, criterion: Criterion, examples: Examples, *, apart: bool) -> None:
    """Refuse a loss that uses weights of `model` beside its output.

    `apart`: rows go through model and loss one at a time, with an ordinary backward pass. Then a loss that holds the
    model, and is copied with it, loses nothing; one that knows the model otherwise has the weights of the original.
    """
    seen, loss = copied(model, criterion, own=True)
    with modes_kept(seen), torch.random.fork_rng():
        training_mode(seen)
        try:
            lost = _uses(model, loss, seen, examples)
            held = not lost and not apart and _uses(seen, loss, seen, examples)
        except CANNOT_TAKE:
            return
    if lost or held:
        raise UnsupportedModel(
            f"{named(criterion)} uses weights of the model beside its output, and no gradient would come of it: an L2 "
            "penalty is the optimizer's weight_decay; what else the loss needs, `forward` returns, one entry for each "
            "row" + ("; engine='exact' takes this loss, which holds the model, as it is" if held else "")
        )


def _uses(model: nn.Module, criterion: Criterion, seen: nn.Module, examples: Examples) -> bool:
    """Whether weights of `model` have a gradient, given what `seen` returned, or have one elsewhere.

    Elsewhere, because that of a penalty is zero at weights that are zero, or have not moved yet.
    """
    seed_torch(0)
    with torch.no_grad():
        output = seen(examples.inputs[:1].clone())

    def found() -> list[torch.Tensor]:
        seed_torch(0)
        with torch.enable_grad():
            return of_weights(model, criterion(output, examples.targets[:1].clone()).sum())

    here = found()
    if len(here) == 1:  # the loss has no graph
        return False
    if length(here) > 0:
        return True
    with moved_weights(model):
        return length(found()) > 0
