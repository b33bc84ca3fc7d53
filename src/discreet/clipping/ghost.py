"""Ghost clipping: clipped sums in about the memory of an ordinary step, by two passes over a chunk.

The first pass measures: as soon as the backward pass has reached what a module returned, its rule takes the norm of
each example's gradient, and what was held for it is let go. The second pass is an ordinary one for the weighted loss,
sum_i w_i loss_i with the clip factors as weights, whose gradient is the clipped sum (Li et al. 2022, "Large language
models can be strong differentially private learners", section 4; Bu et al. 2022, "Scalable and efficient training of
large convolutional neural networks with differential privacy", section 3).

Norm and sum come from different passes, so both must be the same function, rounded alike:

- Random numbers are drawn again from where the first pass began.
- Both passes are in full precision, without autocast and TF32. Parameters in half precision are refused: the passes
  would round differently, by more than noise can cover. Gradients have the type of the parameters, so float32 sums of
  float32 parameters; how far they are from single gradients is measured before a run, as for all engines.
- Examples without a finite gradient, and padding, have no place in the second pass: a weight of zero would not do,
  because zero times infinity is not zero. A copy of a usable example takes their row, with weight zero, so that the
  other rows keep their random numbers. If the result is not finite, or random numbers were drawn differently all the
  same, the chunk is done again by book-keeping.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.clipping.admission import private_parameters
from discreet.clipping.bookkeeping import clipped_sums
from discreet.clipping.factor import clip_factor
from discreet.clipping.losses import Criterion, each_loss
from discreet.clipping.measuring import example_norms
from discreet.clipping.precision import full_precision
from discreet.clipping.replay import Generators
from discreet.clipping.units import Units
from discreet.core.errors import UnsupportedModel


def ghost_sums(
    model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, norm: float, units: Units | None = None
) -> dict[str, Tensor]:
    """The sum of the gradients of all examples (or units), each clipped to `norm`, by parameter name, in the type of
    the parameter. `UnsupportedModel` as for book-keeping, and for half precision and autocast.
    """
    parameters = private_parameters(model)
    _refuse_reduced(parameters, inputs.device.type)
    if len(inputs) == 0:
        return {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    start = Generators([inputs, *parameters.values()])
    with full_precision(inputs.device.type):
        norms = example_norms(model, criterion, inputs, targets, units)
        norms = norms if units is None else units.counted(norms)
        weights = clip_factor(norms, norm, terms=sum(parameter.numel() for parameter in parameters.values()))
        usable = torch.isfinite(norms)
        if units is not None:
            weights, usable = units.with_padding(weights, 0.0), units.with_padding(usable, False)
            weights, usable = units.shared(weights), units.spread(usable)
        if not bool(usable.any()):
            return {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
        measured = Generators([inputs, *parameters.values()])
        start.rewind()
        rows = (inputs, targets) if bool(usable.all()) else (_filled(inputs, usable), _filled(targets, usable))
        sums = _weighted_sums(model, criterion, *rows, weights)
        alike = measured.agree(Generators([inputs, *parameters.values()]))
        if alike and all(bool(torch.isfinite(total).all()) for total in sums.values()):
            return sums
        start.rewind()
        return clipped_sums(model, criterion, inputs, targets, norm, units)


def _weighted_sums(
    model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, weights: Tensor
) -> dict[str, Tensor]:
    """The gradient of sum_i w_i loss_i. A loss may be infinite where its gradient is not: only its weight goes back."""
    parameters = private_parameters(model)
    with torch.enable_grad():
        losses = each_loss(criterion, model(inputs), targets)
        total = (weights.to(losses) * losses).sum()
    if not total.requires_grad:
        return {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    found = torch.autograd.grad(total, list(parameters.values()), allow_unused=True)
    return {
        name: torch.zeros_like(parameter) if gradient is None else gradient
        for (name, parameter), gradient in zip(parameters.items(), found, strict=True)
    }


def _filled(rows: Tensor, usable: Tensor) -> Tensor:
    """The rows, with a copy of the first usable one wherever a row is not."""
    places = torch.arange(len(rows), device=rows.device)
    usable = usable.to(rows.device)
    return rows[torch.where(usable, places, usable.int().argmax())]


def _refuse_reduced(parameters: dict[str, nn.Parameter], device: str) -> None:
    for name, parameter in parameters.items():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise UnsupportedModel(
                f"parameter {name!r} has type {parameter.dtype}, in which the two passes of the engine 'ghost' round "
                "differently; use engine='bookkeeping'"
            )
    if torch.is_autocast_enabled(device):
        raise UnsupportedModel("the engine 'ghost' computes in full precision; with autocast use engine='bookkeeping'")
