"""Stochastic gradient Langevin dynamics over releases: the noise of the mechanism is the noise of the sampler."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.methods.langevin.step_sizes import LangevinSteps
from discreet.methods.noise_aware import NoiseAware

_MATCHES = 0.01
"""Relative tolerance of a population."""


class SGLD(NoiseAware):
    """Samples of a posterior (Welling and Teh 2011; as a private method, Wang, Fienberg and Smola 2015).

        theta = theta - eta/2 (precision theta + population g),   eta = 4 temperature / (population std)^2

    `precision theta` is the gradient of -log of a Gaussian prior, which costs nothing; the population times the noisy
    mean g is that of the negative log-likelihood, noise included. `std` is the noise in every coordinate of g, which
    training reports; eta is the step size at which it equals the noise of Langevin dynamics: eta/2 x population x std =
    sqrt(temperature x eta). So no noise is drawn here, whatever the schedule, calibration or slack.

    `steps` are the step sizes that the plan was made for (`LangevinSteps.noise`), as keys and values in a recipe. With
    them, a plan with other noise is an `InputError` before anything is charged. Without, the plan's noise decides.

    The sampled posterior is that of *clipped* gradients of the examples. `temperature` 1 is that posterior; lower ones
    are sharper. A plan with another `population` is refused as well. `precision` may differ between groups of
    parameters. There is no learning rate to schedule.
    """

    def __init__(
        self,
        params: Iterable[Any],
        population: float,
        precision: float = 1.0,
        temperature: float = 1.0,
        steps: LangevinSteps | Mapping[str, Any] | None = None,
    ) -> None:
        self.population = checks.positive("SGLD: population", population)
        self.temperature = checks.positive("SGLD: temperature", temperature)
        self.steps = LangevinSteps(**steps) if isinstance(steps, Mapping) else steps
        super().__init__(params, {"precision": checks.nonnegative("SGLD: precision", precision)})

    def step_size(self, std: float) -> float:
        """The step size eta at which noise of this standard deviation in the mean is the noise of Langevin dynamics."""
        if not std > 0:
            raise InputError("SGLD needs noise: without any, the step size of Langevin dynamics is infinite")
        return 4 * self.temperature / (self.population * std) ** 2

    def check_population(self, trained: float, held_out: float = 0.0) -> None:
        """Refuse a plan that trains on another number of units."""
        if not any(math.isclose(self.population, one, rel_tol=_MATCHES) for one in (trained, trained / (1 - held_out))):
            raise InputError(
                f"SGLD: population is {self.population:g} and the plan's is {trained:g}, so the posterior would be "
                f"that of other data; give SGLD population={trained:g} (temperature sharpens or flattens a posterior)"
            )

    def check(self, noises: Sequence[float]) -> None:
        """Refuse a plan whose noise is not that of `steps`."""
        t = 0
        for std in noises:
            eta = self.step_size(std)
            t = t + 1 if self.steps is None else self.steps.time_of(eta, t)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step for every parameter that has a gradient."""
        if closure is not None:
            raise InputError("SGLD takes no closure: it never looks at the loss")
        noise = self._noise()
        moved = [(p, group) for group in self.param_groups for p in group["params"] if p.grad is not None]
        if not moved:
            return
        eta = self.step_size(_same_for_all(noise(moved[0][0])))
        t = max((state["step"] for state in self.state.values()), default=0)
        t = t + 1 if self.steps is None else self.steps.time_of(eta, t)
        for parameter, group in moved:
            parameter.mul_(1 - 0.5 * eta * group["precision"])
            parameter.sub_(parameter.grad, alpha=0.5 * eta * self.population)
            self.state[parameter]["step"] = t


def _same_for_all(std: float | Tensor) -> float:
    if isinstance(std, Tensor):
        raise InputError("SGLD needs the same noise in every coordinate; use a plan that does not clip in scales")
    return std
