"""The clips for comparing engines on random gradients, chosen so that rounding shows.

Rounding is measured relative to the clip norm. It would be hidden by gradients that are much shorter and not clipped,
so the plan's clip rule is scaled to norms below those of the random gradients.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from discreet.clipping import Clip, Group

_BELOW = 0.3
"""Clip norms are this part of the smallest norm of a random gradient."""

_ALMOST_ZERO = 1e-3
"""Norms below this share of the largest one are those of gradients that vanish, but for rounding."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """A random gradient in the scales of a clip. `squares`: its squared norm by parameter name; `middle`: the median
    size of its non-zero numbers, for box clipping."""

    squares: Mapping[str, float]
    middle: float = math.nan

    @classmethod
    def of_each(cls, gradients: Mapping[str, Tensor], clip: Clip) -> list[Lengths]:
        """The lengths of gradients, given by parameter name with the gradients along axis 0. A gradient that is not
        finite counts as zero."""
        squares = {name: _rows(part, name, clip).square_().sum(1) for name, part in gradients.items()}
        usable = torch.stack([*squares.values()]).sum(0).isfinite()
        each = zip(*(part.where(usable, 0.0).tolist() for part in squares.values()), strict=True)
        lengths = [cls(dict(zip(squares, one, strict=True))) for one in each]
        if not clip.box:
            return lengths
        sizes = torch.cat([_rows(part, name, clip) for name, part in gradients.items()], 1).abs_()
        sizes.masked_fill_(~usable.unsqueeze(1), 0.0)
        middles = [float(one[one > 0].median()) if bool((one > 0).any()) else math.nan for one in sizes]
        return [replace(one, middle=middle) for one, middle in zip(lengths, middles, strict=True)]

    def joint(self, names: Collection[str]) -> float:
        """The norm of these parameters together."""
        return math.sqrt(sum(square for name, square in self.squares.items() if name in names))


def _rows(part: Tensor, name: str, clip: Clip) -> Tensor:
    """Gradients for a parameter in double precision, in the scales of the clip, as new rows."""
    rows = part.to(torch.float64, copy=True)
    return (rows if clip.scales is None else rows.div_(clip.scales[name])).reshape(len(part), -1)


def tried(clips: Sequence[Clip], lengths: Sequence[Sequence[Lengths]]) -> list[Clip]:
    """The clips to try, from those of the plan's rule and the `lengths` of random gradients in the scales of each."""
    every = [_on_grid(one) for clip, each in zip(clips, lengths, strict=True) for one in _tried(clip, each)]
    return list({(one.norm, one.groups, one.gamma, one.bit, id(one.scales)): one for one in every}.values())


def _tried(clip: Clip, lengths: Sequence[Lengths]) -> list[Clip]:
    """A clip that hides no rounding; and the clip itself, or one that clips nothing, because clip factors hide gradient
    lengths."""
    if clip.box:
        middles = sorted(one.middle for one in lengths if math.isfinite(one.middle))
        assert clip.scales is not None
        factor = middles[len(middles) // 2] if middles else 1.0
        return [clip, Clip.boxed({name: scale * factor for name, scale in clip.scales.items()}, clip.grid)]
    if clip.groups:
        factor = min(1.0, *(_BELOW * _least(lengths, group.names) / group.norm for group in clip.groups))
        groups = tuple(Group(group.norm * factor, group.names) for group in clip.groups)
        return [clip, Clip.grouped(groups, clip.grid)]
    least = _least(lengths)
    norm = min(clip.norm, _BELOW * least)
    if clip.gamma:  # every gradient is scaled; a constant that is small beside it hides nothing
        return [clip, replace(clip, norm=norm, gamma=min(clip.gamma, 0.1 * _BELOW * least))]
    if clip.bit:  # which changes between the gradients that are clearly longer and those clearly shorter
        middle = sorted(one.joint(one.squares) for one in lengths)[len(lengths) // 2]
        norms = [norm, middle] if 0 < middle < math.inf else [norm]
        return [clip, *(replace(clip, norm=one, bit=clip.bit * one / clip.norm) for one in norms)]
    longest = max(one.joint(one.squares) for one in lengths)
    loose = [replace(clip, norm=2 * longest)] if 0 < longest < math.inf else []
    return [replace(clip, norm=norm), *loose]


def shortfall(clip: Clip, lengths: Sequence[Lengths]) -> float:
    """How many times shorter than the clip norm all gradients are; 1 where some are not, where the rule makes them
    longer or follows their lengths, and where all vanish."""
    longest = max(one.joint(one.squares) for one in lengths)
    follows = clip.gamma > 0 or clip.groups or not clip.plain
    return 1.0 if follows or not 0 < longest < clip.norm else clip.norm / longest


def _least(lengths: Sequence[Lengths], names: Collection[str] | None = None) -> float:
    """The smallest norm of a gradient that does not vanish; infinite if there is none, or if a norm is not finite."""
    norms = sorted(one.joint(one.squares if names is None else names) for one in lengths)
    if not all(map(math.isfinite, norms)):
        return math.inf
    return next((norm for norm in norms if norm > _ALMOST_ZERO * norms[-1]), math.inf)


def _on_grid(clip: Clip) -> Clip:
    return replace(clip, grid=2.0 ** (math.floor(math.log2(clip.spread)) - 30))
