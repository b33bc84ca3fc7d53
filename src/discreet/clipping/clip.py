"""`Clip`: how a step is clipped, as engines are told. Only here the sensitivity of a sum is derived from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from discreet.core.errors import InputError

BIT = ".bit"
"""The name of the bit of adaptive clipping in sums; no parameter can have this name."""

RAMP = 2.0**-3
"""The bit falls from 1/2 to -1/2 over this share of the clip norm, centred on it, so that rounding moves it little."""

_UP = 1 + 2.0**-50


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that are clipped together, to the L2 norm `norm`."""

    norm: float
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Clip:
    """How each example (or unit) is clipped. Sums and noise are multiples of `grid`.

    | field    | meaning |
    |----------|---------|
    | norm     | the largest L2 norm of a clipped gradient, all parameters together |
    | groups   | disjoint groups of parameters, each with its own clip norm; if empty, all are clipped together |
    | gamma    | if > 0, the factor is norm / (length + gamma) for every length (Bu et al. 2023, automatic clipping) |
    | bit      | if > 0, one more coordinate, `BIT`: +bit for a gradient shorter than `norm`, -bit for a longer one |
    | scales   | gradients are divided by these, number by number, before they are clipped; sums stay divided |
    | box      | each coordinate of a divided gradient is clipped to [-1, 1] instead; `norm` is sqrt(coordinates) |

    `grouped` and `boxed` derive `norm` from the other fields. `InputError` for fields that exclude each other.
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
        """Groups with their own clip norms; the joint norm is at most the root of the sum of their squares."""
        return cls(math.hypot(*(group.norm for group in groups)) * _UP, grid, groups)

    @classmethod
    def boxed(cls, scales: Mapping[str, Tensor], grid: float) -> Clip:
        """Every coordinate is at most its scale, so m coordinates divided by their scales have norm at most sqrt(m)."""
        count = sum(scale.numel() for scale in scales.values())
        return cls(math.sqrt(count) * _UP, grid, scales=scales, box=True)

    @property
    def plain(self) -> bool:
        """Whether a release is of nothing but sums of gradients as they are: without scales, and without a bit."""
        return self.scales is None and self.bit == 0

    @property
    def sensitivity(self) -> float:
        """The largest L2 norm of what one unit adds to the sum, all coordinates together, in exact arithmetic."""
        return math.hypot(self.norm, self.bit) * _UP if self.bit else self.norm

    @property
    def spread(self) -> float:
        """The unit of float slack: a gradient that is off by e x norm moves the sum by at most e x spread.

        A length that changes by e x norm changes the bit by at most e x 2 bit / `RAMP`.
        """
        return math.hypot(self.norm, 2 * self.bit / RAMP) * _UP if self.bit else self.norm
