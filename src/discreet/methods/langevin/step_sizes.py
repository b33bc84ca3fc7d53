"""Step sizes of Langevin dynamics, and the noise multipliers that they need in a plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

from discreet.core import checks
from discreet.core.errors import InputError

_MATCHES = 0.01
"""Relative tolerance of a step size. Noise exceeds its plan by a float slack of up to a thousandth, which makes the
matching step size up to two thousandths smaller."""


@dataclass(frozen=True, slots=True)
class LangevinSteps:
    """Step sizes eta_t = first / t^decay for t = 1, 2, ..., in the unit of parameter squared (Welling and Teh 2011).

    `every`: segments of this many steps have the step size of their first, so that a long plan has few noise levels.
    With `decay` above 1/2 and at most 1, sum eta_t diverges and sum eta_t^2 does not, which convergence asks for.
    """

    first: float
    decay: float = 1.0
    every: int = 1

    def __post_init__(self) -> None:
        checks.positive("langevin: first", self.first)
        if not checks.nonnegative("langevin: decay", self.decay) <= 20:
            raise InputError(f"langevin: decay must be at most 20, got {self.decay!r}")
        checks.count("langevin: every", self.every)

    def at(self, t: int) -> float:
        """eta of step t, counted from 1."""
        return self.first * math.exp(-self.decay * math.log(t - (t - 1) % self.every))

    def noise(self, steps: int, *, rate: float, clip_norm: float, temperature: float = 1.0) -> list[tuple[float, int]]:
        """(multiplier, steps) for `Plan(noise_multiplier=...)`, at which the plan's noise is that of the Langevin
        sampler.

        A step moves the parameters by eta/2 times the population times the noisy mean, whose noise has the standard
        deviation multiplier x clip norm / (rate x population). Langevin dynamics wants sqrt(temperature x eta) of it:

            multiplier_t = 2 rate sqrt(temperature / eta_t) / clip norm
        """
        rate, clip_norm = checks.positive("rate", rate), checks.positive("clip norm", clip_norm)
        temperature = checks.positive("temperature", temperature)
        found: list[tuple[float, int]] = []
        for t in range(1, checks.count("steps", steps) + 1):
            multiplier = 2 * rate * (temperature / self.at(t)) ** 0.5 / clip_norm
            if found and found[-1][0] == multiplier:
                found[-1] = (multiplier, found[-1][1] + 1)
            else:
                found.append((multiplier, 1))
        return found

    def time_of(self, eta: float, after: int) -> int:
        """The first t > `after` whose step size is `eta` to a hundredth; `InputError` if there is none.

        Steps of a run that were charged and lost leave gaps.
        """
        reached = math.log(self.first / eta) / self.decay if self.decay else 0.0  # the logarithm of t
        t = max(after + 1, int(math.exp(min(reached, 40.0))))
        for candidate in (t, t + 1):
            if abs(self.at(candidate) / eta - 1) <= _MATCHES:
                return candidate
        raise InputError(
            f"the noise of step {after + 1} is that of Langevin dynamics with the step size {eta:.6g}, but the "
            f"declared one is {self.at(after + 1):.6g}; give the plan noise_multiplier=steps.noise(...) with its own "
            "rate and clip norm, and the optimizer the population and temperature of the plan"
        )
