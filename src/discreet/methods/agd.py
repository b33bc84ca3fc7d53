"""The moves of AGD: a noisy gradient is a direction, and the step size along it is chosen privately."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from discreet.core.errors import InputError
from discreet.methods.noise_aware import NoiseAware


class AGD(NoiseAware):
    """The optimizer of a plan with a line search (Lee and Kifer 2018): `AGD(model.parameters())`, no learning rate.

    `step` takes a noisy gradient in and moves nothing. `move(a)` goes a distance a along

        d = -g / ||g||,   g = (p_1 g_1 + ... + p_k g_k) / (p_1 + ... + p_k),   p_i = 1 / (standard deviation of noise)^2

    over the noisy gradients g_i since the last move, which are all taken at the same point. With independent noise g
    has the precision p_1 + ... + p_k: k gradients are as good as a single one with their whole budget (section 4.4 of
    the paper). A move discards them, because the gradient differs elsewhere.
    """

    def __init__(self, params: Iterable[Any]) -> None:
        super().__init__(params, {})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Average the present noisy gradient with those since the last move."""
        if closure is not None:
            raise InputError("AGD takes no closure: step sizes are chosen privately, through a plan with a line search")
        noise = self._noise()
        for parameter in self._parameters():
            assert parameter.grad is not None
            std = noise(parameter)
            if not isinstance(std, float) or not std > 0:
                raise InputError("AGD averages gradients by their noise, which must be one positive number")
            state = self.state[parameter]
            precision = 1 / std**2
            total = state.get("precision", 0.0) + precision
            mean = state.get("gradient", torch.zeros_like(parameter))
            state["gradient"] = mean + (parameter.grad - mean) * (precision / total)
            state["precision"] = total

    @property
    def precision(self) -> float:
        """1 / variance of the noise in each coordinate of the averaged gradient; 0 if there is none."""
        return float(next((self.state[one].get("precision", 0.0) for one in self._parameters()), 0.0))

    def directions(self) -> dict[Tensor, Tensor]:
        """g / ||g|| by parameter; zero where there is no gradient, or where it is zero."""
        held = {one: self.state[one].get("gradient") for one in self._parameters()}
        parts = {one: torch.zeros_like(one) if part is None else part for one, part in held.items()}
        length = math.sqrt(sum(float(part.double().square().sum()) for part in parts.values()))
        scale = 1 / length if 0 < length < math.inf else 0.0
        return {one: part * scale for one, part in parts.items()}

    @torch.no_grad()
    def move(self, step_size: float) -> None:
        """Move by `step_size` and discard the gradients; a step size of 0 keeps both."""
        if not 0 <= step_size < math.inf:
            raise InputError(f"a step size must be at least 0 and finite, got {step_size!r}")
        if step_size == 0:
            return
        for parameter, part in self.directions().items():
            parameter.copy_(moved(parameter, part, step_size))
        self.state.clear()

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]


def moved(parameter: Tensor, direction: Tensor, step_size: float) -> Tensor:
    """The value of a parameter after a step; the same numbers whether a candidate is scored or chosen."""
    return torch.sub(parameter.detach(), direction, alpha=step_size)
