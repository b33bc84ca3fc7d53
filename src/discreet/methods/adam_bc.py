"""DP-AdamBC: Adam with the noise variance subtracted from its second moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.methods.noise_aware import NoiseAware


class DPAdamBC(NoiseAware):
    """Adam over releases, with the variance of the noise taken off its second moment (Tang, Shpilevskiy and Lécuyer
    2024).

        m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2,   n = b2 n + (1 - b2) std^2
        w = w - lr (m / (1 - b1^t)) / sqrt(max((v - n) / (1 - b2^t), floor))

    In a noisy mean g the noise adds std^2 to the expectation of g^2, which in private training is most of it: Adam
    then divides every coordinate by about the same number. The paper subtracts a constant; here n averages what the
    steps had, so it is right under a schedule of noise as well, and is the paper's constant where noise is constant.

    `floor` is the least second moment that is divided by, in the unit of the gradient squared; below it the update is
    that of SGD with momentum and the step size lr / sqrt(floor). What is left after the subtraction is uncertain by
    about std^2 sqrt(1 - b2), so a floor far below that lets noise be divided by noise. `weight_decay` is decoupled, as
    in AdamW.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        floor: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not all(0 <= beta < 1 for beta in betas):
            raise InputError(f"DPAdamBC: betas must be at least 0 and below 1, got {betas!r}")
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise InputError(f"DPAdamBC: {name} must be at least 0, got {value!r}")
        if not floor > 0:
            raise InputError(f"DPAdamBC: floor must be above 0, got {floor!r}")
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "floor": floor, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One step for every parameter that has a gradient."""
        if closure is not None:
            raise InputError("DPAdamBC takes no closure: it never looks at the loss")
        noise = self._noise()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, noise(parameter) ** 2, group)

    def _update(self, parameter: Tensor, gradient: Tensor, variance: float | Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state.update(step=0, noise=0.0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        slow, slower = group["betas"]
        state["step"] += 1
        state["noise"] = slower * state["noise"] + (1 - slower) * variance
        state["mean"].lerp_(gradient, 1 - slow)
        state["square"].mul_(slower).addcmul_(gradient, gradient, value=1 - slower)

        begun = 1 - slower ** state["step"]
        second = ((state["square"] - state["noise"]) / begun).clamp_min_(group["floor"])
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        rate = group["lr"] / (1 - slow ** state["step"])
        parameter.addcdiv_(state["mean"], second.sqrt_(), value=-rate)
