"""`Clip`: what engines are told of a step's clipping. How far one unit can move a sum follows from it, here only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from discreet.core.errors import InputError

BIT = ".bit"
"""The name under which sums hold the bit of adaptive clipping; no parameter can have it."""

RAMP = 2.0**-3
"""The bit falls from 1/2 to -1/2 over this share of the clip norm, around it, so that rounding moves it by little."""

_UP = 1 + 2.0**-50


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that are clipped together, to the L2 norm `norm`."""

    norm: float
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Clip:
    """How each example, or unit, is clipped; noise and sums live on multiples of `grid`.

    | field    | meaning |
    |----------|---------|
    | norm     | the most that the L2 norm of a clipped gradient can be, all parameters together |
    | groups   | disjoint groups of parameters, each with a norm of its own; none: all parameters together |
    | gamma    | 0, or: the factor is norm / (length + gamma) whatever the length (Bu et al. 2023, automatic clipping) |
    | bit      | 0, or: one more coordinate, `BIT`: +bit for a gradient shorter than `norm`, -bit for a longer one |
    | scales   | gradients are divided by these, number by number, before they are clipped; sums stay divided |
    | box      | each coordinate of what was divided is clipped to [-1, 1] instead; `norm` is then sqrt(coordinates) |

    Use `grouped` and `boxed` where `norm` follows from the rest.
    """

    norm: float
    grid: float
    groups: tuple[Group, ...] = ()
    gamma: float = 0.0
    bit: float = 0.0
    scales: Mapping[str, Tensor] | None = field(default=None, compare=False)
    box: bool = False

    def __post_init__(self) -> None:
        if self.bit and (self.groups or self.box):
            raise InputError("the bit of adaptive clipping goes with one norm for all parameters")
        if self.box and (self.scales is None or self.groups or self.gamma):
            raise InputError("a box has scales, and neither groups nor a factor")

    @classmethod
    def grouped(cls, groups: tuple[Group, ...], grid: float) -> Clip:
        """Groups with norms of their own; together a gradient has at most the root of the sum of their squares."""
        return cls(math.hypot(*(group.norm for group in groups)) * _UP, grid, groups)

    @classmethod
    def boxed(cls, scales: Mapping[str, Tensor], grid: float) -> Clip:
        """Every coordinate at most its scale; divided by the scales, m of them have a norm of at most sqrt(m)."""
        count = sum(scale.numel() for scale in scales.values())
        return cls(math.sqrt(count) * _UP, grid, scales=scales, box=True)

    @property
    def sensitivity(self) -> float:
        """What one unit adds to the sum has at most this L2 norm, all coordinates together, in exact arithmetic."""
        return math.hypot(self.norm, self.bit) * _UP if self.bit else self.norm

    @property
    def spread(self) -> float:
        """What float slack is relative to: a gradient that is off by e x norm moves the sum by at most e x spread.

        The bit moves by 2 bit / `RAMP` while a length moves by the norm.
        """
        return math.hypot(self.norm, 2 * self.bit / RAMP) * _UP if self.bit else self.norm
