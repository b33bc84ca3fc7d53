"""From the decision on examples to the weights of a chunk's rows, for engines that form sums from weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from discreet.clipping.factor import Decision
from discreet.clipping.rules.numbers import wide_type
from discreet.clipping.units import Units


def counted(squares: Mapping[str, Tensor], units: Units | None) -> Mapping[str, Tensor]:
    """The squared norms without those of padding, by parameter name."""
    return squares if units is None else {name: units.counted(part) for name, part in squares.items()}


def sizes(parameters: Mapping[str, nn.Parameter]) -> dict[str, int]:
    """How many numbers each parameter has."""
    return {name: parameter.numel() for name, parameter in parameters.items()}


def for_chunk(
    decision: Decision, parameters: Mapping[str, nn.Parameter], units: Units | None, *, cut_off: bool = True
) -> Decision:
    """The decision with a weight for whatever is in the chunk: padding has none, and must be zeroed. Weights below the
    smallest are zero, with `cut_off`: where sums are formed in the type of the parameters."""
    least = _smallest(parameters) if cut_off else 0.0
    weights = {id(weight): weight.masked_fill(weight < least, 0.0) for weight in decision.weights.values()}
    unusable = decision.unusable
    if units is not None:
        weights = {key: units.with_padding(weight, 0.0) for key, weight in weights.items()}
        unusable = units.with_padding(unusable, True)
    return Decision({name: weights[id(weight)] for name, weight in decision.weights.items()}, unusable, decision.bits)


def _smallest(parameters: Mapping[str, nn.Parameter]) -> float:
    """The smallest weight with all its digits in the types that sums are formed in. A gradient that needs a smaller one
    is beyond the range of the type, like one that overflows, and contributes nothing."""
    return max(torch.finfo(wide_type(parameter.dtype)).tiny for parameter in parameters.values())
