"""The clip factor: only this file decides how much of an example's gradient is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from discreet.clipping.clip import BIT, RAMP, Clip
from discreet.core.array_types import Array
from discreet.randomness.machine_code import machine_code

SMALL = 1e-30
"""Single precision holds scales between this and its inverse, and weights above this."""

_TINY = 2.0**-1022
"""The smallest number of double precision with all its digits."""


def clip_factor(norms: Tensor, clip_norm: float, terms: int = 1, gamma: float = 0.0) -> Tensor:
    """Factors that bring gradients of the given L2 norms to at most `clip_norm`, in exact arithmetic.

    `norms`: float64, one per example, shape (batch,), computed in float64 from `terms` squares. Such a norm is off
    by at most `terms` roundings, so the limit is that much below `clip_norm`. Returns float64, same shape.

    | norm                      | factor |
    |---------------------------|--------|
    | 0                         | 1 |
    | at most the limit         | 1 |
    | above the limit           | limit / norm, rounded down |
    | infinite or NaN           | 0 (the gradient itself must be zeroed too: 0 x NaN is NaN) |

    With `gamma` > 0 every finite norm has the factor limit / (norm + gamma), rounded down (Bu et al. 2023, "Automatic
    clipping", AUTO-S): a gradient is scaled up as well, and is always shorter than `clip_norm`.
    """
    norms = norms.detach().double()
    limit = clip_norm * (1 - (terms + 16) * 2.0**-52)
    if norms.device.type == "cpu":
        factors = np.empty(norms.shape)
        _compiled().factors(norms.contiguous().numpy(), limit, limit * (1 - 2.0**-51), gamma, factors)
        return torch.from_numpy(factors)
    return _factors_elsewhere(norms, limit, limit * (1 - 2.0**-51), gamma)


def _factors(norms: Array, limit: float, numerator: float, gamma: float, factors: Array) -> None:
    """`clip_factor` in one pass, which takes a tenth of the time of torch's ten for a small batch."""
    for place in range(len(norms)):
        norm = norms[place]
        factor = 1.0
        if gamma > 0 or not norm <= limit:
            factor = numerator * (1.0 / max(norm + gamma, _TINY))  # in the order of torch
            if factor < _TINY:
                factor = 0.0  # a subnormal factor has too few digits to be rounded down
        factors[place] = factor if norm < np.inf else 0.0  # not so for NaN


def _norms(squares: Array, norms: Array, unusable: npt.NDArray[np.bool_]) -> None:
    """`_joint`, of squares in the rows of an array."""
    for place in range(len(norms)):
        total = 0.0
        for row in range(len(squares)):
            total += squares[row, place]
        norms[place] = np.sqrt(total)
        unusable[place] = not norms[place] < np.inf


class _Compiled(NamedTuple):
    factors: Callable[[Array, float, float, float, Array], None]
    norms: Callable[[Array, Array, npt.NDArray[np.bool_]], None]


@cache
def _compiled() -> _Compiled:
    return _Compiled(
        machine_code(_factors, "void(float64[::1], float64, float64, float64, float64[::1])", exact=False),
        machine_code(_norms, "void(float64[:, ::1], float64[::1], boolean[::1])", exact=False),
    )


def _factors_elsewhere(norms: Tensor, limit: float, numerator: float, gamma: float) -> Tensor:
    """`_factors` on another device than the CPU."""
    scaled = numerator / (norms + gamma).clamp(min=_TINY)
    scaled = torch.where(scaled < _TINY, 0.0, scaled)
    factor = scaled if gamma else torch.where(norms <= limit, torch.ones_like(norms), scaled)
    return torch.where(torch.isfinite(norms), factor, torch.zeros_like(norms))


@dataclass(frozen=True, slots=True)
class Decision:
    """The share of each example that is used. `weights`: the clip factors by parameter name, float64 of shape (batch,);
    parameters that are clipped together share one tensor.

    `unusable` marks examples whose gradient is not finite: they must be zeroed, whatever their weight. `bits`: what
    each example adds to `BIT`, if the clip has a bit.
    """

    weights: Mapping[str, Tensor]
    unusable: Tensor
    bits: Tensor | None


def decide(clip: Clip, squares: Mapping[str, Tensor], sizes: Mapping[str, int]) -> Decision:
    """The decision for a batch, from the squared L2 norm of each example's gradient for each parameter.

    `squares`: by parameter name, float64 of shape (batch,), of gradients divided by the scales of the clip (undivided
    for a box, where squares only show which examples are finite). `sizes`: the number of elements of each parameter.
    """
    if not clip.groups:
        norms, unusable = _joint(squares.values())
        factor = torch.ones_like(norms) if clip.box else clip_factor(norms, clip.norm, sum(sizes.values()), clip.gamma)
        return Decision(dict.fromkeys(squares, factor), unusable, _bits(norms, clip))
    factors: dict[tuple[str, ...], Tensor] = {}
    finite = torch.ones_like(next(iter(squares.values())), dtype=torch.bool)
    for group in clip.groups:
        names = tuple(name for name in squares if name in group.names)
        norms, unusable = _joint(squares[name] for name in names)
        factors[names] = clip_factor(norms, group.norm, sum(sizes[name] for name in names), clip.gamma)
        finite &= ~unusable
    weights: dict[str, Tensor] = {}
    for names, factor in factors.items():
        weights |= dict.fromkeys(names, factor * finite)
    return Decision({name: weights[name] for name in squares}, ~finite, None)


def clipped(gradients: dict[str, Tensor], clip: Clip) -> dict[str, Tensor]:
    """Clip per-example gradients, in the scales of the clip.

    `gradients[name]`: shape (batch, *parameter shape). Returns float64 of the same shapes, with a joint L2 norm of at
    most `clip.norm` per example, and `BIT` of shape (batch, 1) if the clip has a bit. An example with a non-finite
    value becomes zero, and so does its bit.
    """
    rows, decision = _usable_rows(gradients, clip)
    parts = {name: (row * decision.weights[name].unsqueeze(1)).view_as(gradients[name]) for name, row in rows.items()}
    return parts if decision.bits is None else parts | {BIT: decision.bits.unsqueeze(1)}


def clipped_sum(gradients: dict[str, Tensor], clip: Clip) -> dict[str, Tensor]:
    """The sum of `clipped` over the examples, without forming its terms: float64, shape (*parameter shape)."""
    rows, decision = _usable_rows(gradients, clip)
    sums = {name: (decision.weights[name] @ row).view(gradients[name].shape[1:]) for name, row in rows.items()}
    return sums | summed_bits(decision)


def summed_bits(decision: Decision) -> dict[str, Tensor]:
    """{`BIT`: the sum of the bits, shape (1,)}, or an empty dictionary without bits."""
    return {} if decision.bits is None else {BIT: decision.bits.sum().view(1)}


def _usable_rows(gradients: dict[str, Tensor], clip: Clip) -> tuple[dict[str, Tensor], Decision]:
    """Gradients as float64 rows in the scales of the clip, with non-finite rows zeroed, and the decision on them."""
    rows = {name: gradient.double().reshape(len(gradient), -1) for name, gradient in gradients.items()}
    if clip.scales is not None and not clip.box:
        rows = {name: row / clip.scales[name].reshape(-1) for name, row in rows.items()}
    squares = {name: torch.linalg.vector_norm(row, dim=1).square() for name, row in rows.items()}
    decision = decide(clip, squares, {name: row.shape[1] for name, row in rows.items()})
    if bool(decision.unusable.any()):
        rows = {name: row.masked_fill(decision.unusable.unsqueeze(1), 0.0) for name, row in rows.items()}
    if clip.scales is not None and clip.box:
        rows = {name: in_box(row, clip.scales[name].reshape(-1)) for name, row in rows.items()}
    return rows, decision


def in_box(rows: Tensor, scale: Tensor) -> Tensor:
    """Gradients of examples divided by the scales, each number then clipped to [-1, 1]."""
    return divided(rows, scale).clamp_(-1.0, 1.0)


def divided(rows: Tensor, scale: Tensor) -> Tensor:
    """Gradients of examples divided by the scales: in single precision if both fit into it, else in float64."""
    if rows.dtype == torch.float32 and in_single(scale):
        return rows / scale.float()
    return rows.double() / scale


def in_single(scale: Tensor) -> bool:
    """Whether single precision holds the scales and their inverses."""
    return bool(((scale > SMALL) & (scale < 1 / SMALL)).all())


def _joint(squares: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """The joint norms of all parameters: float64, shape (batch,); and which of them are not finite."""
    parts = list(squares)
    if parts[0].device.type != "cpu":
        norms = torch.stack(parts).sum(0).sqrt()
        return norms, ~torch.isfinite(norms)
    held = np.array([part.detach().numpy() for part in parts])
    joint, unusable = np.empty(held.shape[1]), np.empty(held.shape[1], np.bool_)
    _compiled().norms(held, joint, unusable)
    return torch.from_numpy(joint), torch.from_numpy(unusable)


def _bits(norms: Tensor, clip: Clip) -> Tensor | None:
    """+bit for a gradient clearly shorter than the clip norm, -bit for a longer one, 0 for one that is not finite.

    On a ramp around the clip norm the value is in between. (Andrew et al. 2021 have a jump there. With a jump,
    rounding could move the sum by a whole bit for each example whose length is the clip norm, and neighbouring sums
    round differently. On a ramp, rounding moves the sum by little, which the float slack covers.)
    """
    if not clip.bit:
        return None
    halves = ((clip.norm - norms) / (RAMP * clip.norm)).clamp(-0.5, 0.5)
    return torch.where(torch.isfinite(norms), halves * (2 * clip.bit), torch.zeros_like(norms))
