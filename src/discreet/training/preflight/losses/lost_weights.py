"""Checks that no gradient is lost without a word: a loss uses no weights of the model beside its output, and a copy of
the model uses none of the model's own.

Private rows go through a copy of the model, and engines differentiate the copy's output only.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from discreet.clipping import Criterion, modes_kept, training_mode
from discreet.clipping.admission.mixing import moved_weights
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.copies import copied
from discreet.core.errors import CANNOT_TAKE, UnsupportedModel
from discreet.training.preflight.losses.loss_trials import length, named, of_weights
from discreet.training.preflight.random_rows import Examples


def refuse_lost_weights(model: nn.Module, criterion: Criterion, examples: Examples, *, apart: bool) -> None:
    """Refuse a loss that uses weights of `model` beside its output, and a model whose copies use its own weights.

    `apart`: rows go through model and loss one at a time, with an ordinary backward pass. Then a loss that holds the
    model, and is copied with it, loses nothing; one that knows the model otherwise has the weights of the original.
    """
    seen, loss = copied(model, criterion, own=True)
    with modes_kept(seen), torch.random.fork_rng():
        training_mode(seen)
        try:
            behind = _left_behind(model, seen, examples)
            lost = behind is None and _uses(model, loss, seen, examples)
            held = behind is None and not lost and not apart and _uses(seen, loss, seen, examples)
        except CANNOT_TAKE:
            return
    if behind is not None:
        raise UnsupportedModel(
            f"copies of the model use {behind!r} of the model itself: a lambda, or another function that the model "
            "holds, knows a layer from outside. Private rows go through copies, and no gradient would come of it; "
            "reach layers by self, in a method"
        )
    if lost or held:
        raise UnsupportedModel(
            f"{named(criterion)} uses weights of the model beside its output, and no gradient would come of it: an L2 "
            "penalty is the optimizer's weight_decay; what else the loss needs, `forward` returns, one entry for each "
            "row" + ("; engine='exact' takes this loss, which holds the model, as it is" if held else "")
        )


def _left_behind(model: nn.Module, seen: nn.Module, examples: Examples) -> str | None:
    """The name of a parameter of `model` of which its copy `seen` makes outputs, if any: of a layer that a lambda, or
    another function inside, holds. Such a function is not copied."""
    seed_torch(0)
    with torch.enable_grad():
        outputs = tree_leaves(seen(examples.inputs[:1].clone()))
    todo = [one.grad_fn for one in outputs if isinstance(one, Tensor) and one.grad_fn is not None]
    met = {*todo}
    while todo:
        new = {one for one, _ in todo.pop().next_functions if one is not None} - met
        met |= new
        todo += new
    reached = {id(node.variable) for node in met if hasattr(node, "variable")}
    return next((name for name, one in model.named_parameters() if id(one) in reached), None)


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
