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
  same, the chunk is done again by book-keeping. A box, which needs each example's gradient, is always left to it.
- The second pass adds up terms of all examples at once (positions of a sequence, windows of an image). Where those of
  one example are far longer than what they come to, they cancel, and their rounding would hide the other examples. A
  chunk with such an example is left to book-keeping, which forms and measures gradients by themselves. So is one with
  very small weights, and one where a weight times a slope of the loss is below the range of normal numbers.

Where groups of parameters have weights of their own, the second pass goes back once for each group.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.clipping.admission import private_parameters
from discreet.clipping.bookkeeping import clipped_sums
from discreet.clipping.capture import tensors_in
from discreet.clipping.factor import Decision, decide, summed_bits
from discreet.clipping.losses import Criterion, each_loss
from discreet.clipping.measuring import example_squares
from discreet.clipping.policies import BIT, Clip
from discreet.clipping.precision import full_precision
from discreet.clipping.replay import Generators
from discreet.clipping.units import Units
from discreet.clipping.weights import counted, for_chunk, sizes
from discreet.core.errors import UnsupportedModel

_LEAST = 1e-12
"""The smallest weight for the second pass."""

_REACH = 1024
"""The terms of an example, weighted, may add up to so many clip norms in the second pass. (The rounding of what is
single precision is then below 2^-13 of one. Unrelated terms at 1000 positions add up to 32 times their sum.)"""


def ghost_sums(
    model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None = None
) -> dict[str, Tensor]:
    """The sum of the gradients of all examples (or units), each clipped as `clip` says, by parameter name, in the type
    of the parameter; float64 if there are scales. `UnsupportedModel` as for book-keeping, and for half precision and
    autocast.
    """
    parameters = private_parameters(model)
    _refuse_reduced(parameters, inputs.device.type)
    if len(inputs) == 0:
        bit = {BIT: torch.zeros(1, dtype=torch.float64)} if clip.bit else {}
        return {name: torch.zeros_like(parameter) for name, parameter in parameters.items()} | bit
    if clip.box:
        return clipped_sums(model, criterion, inputs, targets, clip, units)
    start = Generators([inputs, *parameters.values()])
    with full_precision(inputs.device.type):
        squares, reach = example_squares(model, criterion, inputs, targets, clip, units)
        decision = for_chunk(decide(clip, counted(squares, units), sizes(parameters)), parameters, units)
        if bool(decision.unusable.all()):
            nothing = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
            return nothing | summed_bits(decision)
        if _within_reach(decision, reach, clip):
            measured = Generators([inputs, *parameters.values()])
            start.rewind()
            sums = _second_pass(model, criterion, inputs, targets, decision, units)
            alike = measured.agree(Generators([inputs, *parameters.values()]))
            if sums is not None and alike and all(bool(torch.isfinite(total).all()) for total in sums.values()):
                scales = clip.scales
                if scales is not None:
                    sums = {name: total.double() / scales[name] for name, total in sums.items()}
                return sums | summed_bits(decision)
        start.rewind()
        return clipped_sums(model, criterion, inputs, targets, clip, units)


def _within_reach(decision: Decision, reach: dict[str, Tensor], clip: Clip) -> bool:
    """Whether weights and terms of all examples that are used are of a size that the second pass adds up well."""
    doubtful = torch.zeros_like(decision.unusable)
    for name, weights in decision.weights.items():
        longest = weights * reach[name]
        if clip.scales is not None:
            longest = longest / clip.scales[name].min()
        doubtful |= (weights < _LEAST) | ~(longest <= _REACH * clip.norm)
    return not bool((doubtful & ~decision.unusable).any())


def _second_pass(
    model: nn.Module,
    criterion: Criterion,
    inputs: Tensor,
    targets: Tensor,
    decision: Decision,
    units: Units | None,
) -> dict[str, Tensor] | None:
    """The sums, by one backward pass for all parameters with the same weights; None where weights are too small."""
    usable, groups = ~decision.unusable, _alike(decision)
    if units is not None:
        usable = units.spread(usable)
        groups = [(names, units.shared(weights)) for names, weights in groups]
    if not bool(usable.all()):
        inputs, targets = _filled(inputs, usable), _filled(targets, usable)
    return _weighted_sums(model, criterion, inputs, targets, groups)


def _alike(decision: Decision) -> list[tuple[list[str], Tensor]]:
    """The names of parameters that have the same weights, with these."""
    groups: dict[int, tuple[list[str], Tensor]] = {}
    for name, weights in decision.weights.items():
        groups.setdefault(id(weights), ([], weights))[0].append(name)
    return list(groups.values())


def _weighted_sums(
    model: nn.Module,
    criterion: Criterion,
    inputs: Tensor,
    targets: Tensor,
    groups: list[tuple[list[str], Tensor]],
) -> dict[str, Tensor] | None:
    """The gradient of sum_i w_i loss_i for each group of parameters, with weights of its own; None where they are too
    small. A loss may be infinite where its gradient is not: only its weight goes back."""
    parameters = private_parameters(model)
    with torch.enable_grad():
        output = model(inputs)
        losses = each_loss(criterion, output, targets)
    if not losses.requires_grad:
        return {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}
    returned = [part for part in tensors_in(output) if part.requires_grad]
    slopes = torch.autograd.grad(losses.sum(), returned, allow_unused=True, retain_graph=True)
    sums: dict[str, Tensor] = {}
    for number, (names, weights) in enumerate(groups, 1):
        with torch.enable_grad():
            total = (weights.to(losses) * losses).sum()
        asked = [*(parameters[name] for name in names), *returned]
        found = torch.autograd.grad(total, asked, allow_unused=True, retain_graph=number < len(groups))
        if any(_lost(part, slope, weights) for part, slope in zip(found[len(names) :], slopes, strict=True)):
            return None
        for name, gradient in zip(names, found, strict=False):
            sums[name] = torch.zeros_like(parameters[name]) if gradient is None else gradient
    return {name: sums[name] for name in parameters}


def _lost(weighted: Tensor | None, slope: Tensor | None, weights: Tensor) -> bool:
    """Whether a slope of the loss has lost digits to its weight: the model may make what is left of it large again."""
    if weighted is None or slope is None:
        return False
    lost = (weighted.abs() < torch.finfo(weighted.dtype).tiny) & (slope != 0)
    return bool(lost.reshape(len(weights), -1)[weights != 0].any())


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
