"""Ghost clipping: clipped sums in about the memory of an ordinary step, by two passes over a chunk.

The first pass measures: as soon as the backward pass has the gradients of a module's outputs, the module's rule takes
the norm of each example's gradient, and the tensors are freed (Li et al. 2022, "Large language models can be strong
differentially private learners", section 4). The second pass repeats the first with known clip factors, and adds up
where the first pass measured.

So the sum is formed by the same rules and from the same numbers as the norms, as in book-keeping. (The gradient of the
weighted loss would be the same sum in exact arithmetic. But as computed, the norms do not bound that gradient: rows can
be made whose gradients cancel in a pass without weights, but not in a pass with weights.)

- The second pass draws the same random numbers as the first.
- Both passes are not assumed to see the same numbers: the second pass measures what it adds up. If an example is longer
  than its weight allows, or finite in one pass only, the chunk is done again by book-keeping.
- Both passes are in full precision, without autocast and TF32. Parameters in half precision are refused.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.clip import Clip
from discreet.clipping.engines.bookkeeping import Share, clipped_sums, rules_of, settle, total_of
from discreet.clipping.engines.clipped_sums import sums_of_none
from discreet.clipping.engines.norms import example_squares
from discreet.clipping.factor import Decision, decide, summed_bits
from discreet.clipping.losses import Criterion
from discreet.clipping.precision import full_precision
from discreet.clipping.replay import Generators
from discreet.clipping.units import Chunk
from discreet.clipping.weights import counted, for_chunk, sizes
from discreet.core.assumptions import MOST_BITS
from discreet.core.errors import UnsupportedModel

_LONGER = 2.0**-MOST_BITS
"""The most that an example may be longer in the second pass, relative to its clip norm: the least that noise covers."""


def ghost_sums(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> dict[str, Tensor]:
    """The sums of `bookkeeping.clipped_sums`; `UnsupportedModel` as there, and for half precision and autocast."""
    parameters = private_parameters(model)
    _refuse_reduced(parameters, chunk.inputs.device.type)
    if chunk.size == 0:
        return sums_of_none(model, clip)
    sums = {name: torch.zeros_like(parameter) for name, parameter in parameters.items()}

    def decided(squares: dict[str, Tensor]) -> Decision:
        decision = decide(clip, counted(squares, chunk.units), sizes(parameters))
        return for_chunk(decision, parameters, chunk.units, cut_off=clip.scales is None)

    def add_up(shares: dict[str, list[Share]]) -> None:
        settle(shares, clip)
        if spoilt:
            for one in rules_of(shares):
                one.drop(decision.unusable)
        for name, held in shares.items():
            weights = decision.weights[name].to(parameters[name].device)
            sums[name] = total_of(held, parameters[name], weights, clip, name)

    start = Generators([chunk.inputs, *parameters.values()])
    with full_precision(chunk.inputs.device.type):
        decision = decided(example_squares(model, criterion, chunk, clip))
        spoilt = bool(decision.unusable.any())
        start.rewind()
        again = decided(example_squares(model, criterion, chunk, clip, add_up))
        if _allowed(decision, again):
            return sums | summed_bits(decision)
        start.rewind()
        return clipped_sums(model, criterion, chunk, clip)


def _allowed(used: Decision, measured: Decision) -> bool:
    """Whether no example was used with a larger weight than the second pass, which `measured` it, allows."""
    pairs = {id(weights): (weights, measured.weights[name]) for name, weights in used.weights.items()}
    fit = all(bool((weights <= limits * (1 + _LONGER)).all()) for weights, limits in pairs.values())
    return fit and torch.equal(used.unusable, measured.unusable)


def _refuse_reduced(parameters: dict[str, nn.Parameter], device: str) -> None:
    for name, parameter in parameters.items():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise UnsupportedModel(
                f"parameter {name!r} has type {parameter.dtype}, and the engine 'ghost' computes in single or double "
                "precision; use engine='bookkeeping'"
            )
    if torch.is_autocast_enabled(device):
        raise UnsupportedModel("the engine 'ghost' computes in full precision; with autocast use engine='bookkeeping'")
