"""DP dropout: the plan's noise, expressed as a Gaussian dropout rate for every weight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from discreet.core import checks
from discreet.core.errors import InputError
from discreet.methods.noise_aware import NoiseAware


class DPDropout(NoiseAware):
    """A Langevin step with the noise that privacy requires ("Differentially Private Dropout" 2017, Algorithm 1).

        theta = theta - eta_t/2 (weight_decay theta + g),   eta_t = lr / t^decay,   t = 1, 2, ...
        alpha_i = (noise variance on theta_i) / theta_i^2 = (eta_t/2 std_i)^2 / theta_i^2

    g is the noisy mean. A Gaussian prior of precision p has weight_decay = p / population, and its gradient costs
    nothing. The plan calibrates the noise; the equivalent dropout is computed afterwards: adding the noise to theta_i
    equals multiplying theta_i by a number of mean 1 and variance alpha_i (`rates`). The paper equates the variance of
    the noise in the *gradient* with alpha theta^2; here it is that of the noise that reaches theta.
    """

    def __init__(self, params: Iterable[Any], lr: float = 1.0, decay: float = 1.0, weight_decay: float = 0.0) -> None:
        defaults = {"lr": lr, "decay": decay, "weight_decay": weight_decay}
        for name, value in defaults.items():
            checks.nonnegative(f"DPDropout: {name}", value)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step for every parameter that has a gradient."""
        if closure is not None:
            raise InputError("DPDropout takes no closure: it never looks at the loss")
        noise = self._noise()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                state["step"] = state.get("step", 0) + 1
                half = 0.5 * group["lr"] / state["step"] ** group["decay"]
                parameter.mul_(1 - half * group["weight_decay"]).sub_(parameter.grad, alpha=half)
                state["noise"] = half * noise(parameter)

    @torch.no_grad()
    def rates(self) -> dict[Tensor, Tensor]:
        """alpha of each parameter, in its shape: the last step's noise variance on each weight over the weight squared.

        0 before the first step; infinite at a weight of zero. A binary dropout of probability alpha / (1 + alpha) has
        the same mean and variance.
        """
        found = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                noise = torch.as_tensor(self.state.get(parameter, {}).get("noise", 0.0)).to(parameter)
                rate = noise.square() / parameter.square()
                found[parameter] = torch.where(noise == 0, torch.zeros_like(rate), rate)
        return found
