"""What a plan promises of each step, from the plan alone: noise, divisor, and how far one unit moves a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.core.array_types import Array
from discreet.plan import Plan
from discreet.plan.noise_on_mean import value_at


@dataclass(frozen=True, slots=True)
class Promised:
    """The promises of a fixed plan about parameters of these sizes, by name."""

    plan: Plan
    sizes: Mapping[str, int]

    def multiplier(self, step: int) -> float:
        """The noise multiplier of a step."""
        return value_at(self.plan.multipliers, step)

    def divisor(self, step: int) -> float:
        """The public number that the noisy sum of a step is divided by."""
        return value_at(self.plan.batches, step)

    def norms(self, bits: Sequence[float], *, still: bool = False) -> list[float]:
        """The clip norm of each step, of which `bits` are what was released beside the gradients: an adaptive norm
        follows them, unless it is held `still`. NaN where a rule has no norm for all parameters."""
        rule, found = self.plan.clipping, list[float]()
        now = rule.first_norm
        for step, bit in enumerate(bits):
            clip_norm = None if rule.groups(list(self.sizes)) or rule.BOX else self._clip(step, now)[0]
            found.append(math.nan if clip_norm is None else clip_norm)
            if rule.FOLLOWS and now is not None and not still:
                half = self._clip(step, now)[1]
                now = rule.after(now, bit / (2 * half), self.divisor(step))
        return found

    def sensitivity(self, step: int, norm: float) -> float:
        """The most that one unit moves the sum of a step with this clip norm (and the bit), in public scales."""
        rule = self.plan.clipping
        groups = rule.groups(list(self.sizes))
        if groups:
            return math.hypot(*(one for one, _ in groups.values()))
        return math.sqrt(sum(self.sizes.values())) if rule.BOX else math.hypot(*self._clip(step, norm))

    def sensitivities(self, bits: Sequence[float], *, still: bool = False) -> Array:
        """The sensitivity of each step; shape (steps,)."""
        norms = self.norms(bits, still=still)
        return np.array([self.sensitivity(step, norm) for step, norm in enumerate(norms)])

    def _clip(self, step: int, norm: float | None) -> tuple[float, float]:
        clip = self.plan.clipping.at(step, norm, self.multiplier(step))
        return clip.norm, clip.bit
