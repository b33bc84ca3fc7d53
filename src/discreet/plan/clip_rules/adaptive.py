"""Adaptive clipping: the clip norm follows a quantile of the gradient lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from discreet.core.errors import InputError
from discreet.plan.clip_rules.base import ClipNorm, ClipRule, StepClip


class AdaptiveClipping(ClipRule):
    """Flat clipping to C_t, which follows a quantile of the lengths of gradients: Andrew et al. 2021, "Differentially
    private learning with adaptive clipping".

    Beside the sum of gradients clipped to C_t, each step releases how many of them were shorter than C_t. It does so by
    the sum b of centred bits: 1/2 for a unit whose gradient is shorter, -1/2 for any other unit. Then C_{t+1} = C_t
    exp(-rate (b / expected batch + 1/2 - quantile)), within [floor, cap]. Both are one release: the bit is one more
    coordinate of the sum, from -h to h, and the noise is the same on every coordinate. With noise multiplier z of the
    event and `bit_multiplier` s (noise std / 1/2 of the bit), the gradient alone has z_g = (z^-2 - s^-2)^(-1/2), its
    noise is N = z_g C_t, and h = N / s makes the bit's noise s h. The sensitivity of both together is sqrt(C_t^2 + h^2)
    = N / z, so the event is a Gaussian one of multiplier z. s must be above z; the paper takes s = expected batch / 10.

    Why the accounting stays that of a fixed plan: given all earlier releases, C_t and h are constants, and the step is
    a Gaussian mechanism whose noise is z times its sensitivity. Divided by that sensitivity, it is dominated by the
    same pair of distributions whatever C_t is. A pair that dominates each step given the past also dominates the
    adaptive composition (Zhu, Dong and Wang 2022, "Optimal accounting of differential privacy via characteristic
    function", theorem 10). The weights depend on the past in the same way. Updating C_t is post-processing.

    A unit whose gradient is not finite has a gradient and a bit of zero, so it moves neither by more than any other.
    Within 1/16 of C_t on either side the bit falls on a straight line from 1/2 to -1/2: see `clipping.factor`.
    """

    GRADIENT = (
        "is scaled down to length at most C, which starts at {initial} and follows the {quantile} quantile of lengths. "
        "For that, each release has one more number: how many gradients were shorter than C, with noise"
    )
    UNIT = "what one gradient and its part of that number come to together"
    CELL = "adaptive, from {initial}, quantile {quantile}"
    FOLLOWS = True
    kind: Literal["adaptive"] = "adaptive"
    initial: ClipNorm
    bit_multiplier: Annotated[float, Field(gt=0)]
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5
    rate: Annotated[float, Field(gt=0, le=10)] = 0.2
    floor: ClipNorm = 1e-4
    cap: ClipNorm = 1e4

    @model_validator(mode="after")
    def _within_bounds(self) -> AdaptiveClipping:
        if not self.floor <= self.initial <= self.cap:
            raise ValueError(f"initial must be from floor ({self.floor:g}) to cap ({self.cap:g}), got {self.initial:g}")
        return self

    def check(self, steps: int, multipliers: Iterable[float]) -> None:
        largest = max(multipliers)
        if not self.bit_multiplier > largest:
            raise InputError(
                f"the bit_multiplier of adaptive clipping ({self.bit_multiplier:g}) must be above the noise multiplier "
                f"({largest:g}), of which it takes a part; a tenth of the expected batch is usual"
            )

    def bit(self, norm: float, multiplier: float) -> float:
        """h, the size of the bit beside gradients of clip norm `norm` in an event with this multiplier."""
        self.check(1, [multiplier])
        return norm * multiplier / math.sqrt((self.bit_multiplier - multiplier) * (self.bit_multiplier + multiplier))

    def after(self, norm: float, bits: float, expected_batch: float) -> float:
        """C_{t+1} from C_t = `norm` and the released sum of centred bits."""
        log = math.log(norm) - self.rate * (bits / expected_batch + 0.5 - self.quantile)
        bounded = math.exp(min(max(log, math.log(self.floor)), math.log(self.cap)))
        return min(max(bounded, self.floor), self.cap)

    @property
    def first_norm(self) -> float:
        return self.initial

    def at(self, step: int, norm: float | None, multiplier: float) -> StepClip:
        now = self.initial if norm is None else norm
        return StepClip(now, bit=self.bit(now, multiplier))

    def tried(self) -> tuple[StepClip, ...]:
        return tuple(self.at(0, norm, 0.5 * self.bit_multiplier) for norm in (self.floor, self.initial))

    def stated(self, multipliers: Sequence[float], sizes: Mapping[str, int]) -> dict[str, Any]:
        """A list of [noise multiplier, sensitivity / clip norm of the step]."""
        return {"sensitivity": [[z, math.hypot(1.0, self.bit(1.0, z))] for z in multipliers]}
