"""From the decision on examples to the weights of a whole chunk, for engines that form sums from weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from discreet.clipping.factor import Decision
from discreet.clipping.rules.numbers import wide_type
from discreet.clipping.units import Units


def counted(squares: Mapping[str, Tensor], units: Units | None) -> Mapping[str, Tensor]:
    """The squared norms by parameter name, without those of padding."""
    return squares if units is None else {name: units.counted(part) for name, part in squares.items()}


def sizes(parameters: Mapping[str, nn.Parameter]) -> dict[str, int]:
    """The number of elements of each parameter."""
    return {name: parameter.numel() for name, parameter in parameters.items()}


def for_chunk(
    decision: Decision, parameters: Mapping[str, nn.Parameter], units: Units | None, *, cut_off: bool
) -> Decision:
    """The decision for all of a chunk: padding has weight 0 and is marked unusable. With `cut_off` (where sums are
    formed in the type of the parameters), weights too small for that type become 0."""
    least = _smallest(parameters) if cut_off else 0.0
    given = {id(weight): weight for weight in decision.weights.values()}
    weights = {key: _cut_off(weight, least) for key, weight in given.items()}
    unusable = decision.unusable
    if units is not None:
        weights = {key: units.with_padding(weight, 0.0) for key, weight in weights.items()}
        unusable = units.with_padding(unusable, True)
    return Decision({name: weights[id(weight)] for name, weight in decision.weights.items()}, unusable, decision.bits)


def _cut_off(weights: Tensor, least: float) -> Tensor:
    if weights.device.type == "cpu":
        numbers = weights.detach().numpy()
        return torch.from_numpy(np.where(numbers < least, 0.0, numbers))
    return weights.masked_fill(weights < least, 0.0)


def _smallest(parameters: Mapping[str, nn.Parameter]) -> float:
    """The smallest weight that has all its digits in the types in which sums are formed. A gradient that needs a
    smaller weight is beyond the range of the type, like one that overflows, and contributes nothing."""
    return max(torch.finfo(wide_type(parameter.dtype)).tiny for parameter in parameters.values())
