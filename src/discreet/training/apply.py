"""The only place that hands a gradient to an optimizer: from a release, and from public rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from discreet.clipping.host_memory import OnDevice, beside
from discreet.core.array_types import Array
from discreet.core.release import Release
from discreet.mechanism import divide
from discreet.training.public.extra_rows import PublicGradient


def apply(
    release: Release,
    parameters: dict[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    divisor: float,
    public: PublicGradient | None = None,
) -> None:
    """Let the optimizer take one step with the noisy mean `release / divisor`, then clear the gradients.

    `divisor` is a public constant: the expected batch of the plan. `public`: what public rows add.
    """
    try:
        for name, parameter in parameters.items():
            mean = _mean(release.tensors, name, divisor, parameter)
            parameter.grad = mean if public is None else public.joined(name, mean)
        optimizer.step()
    finally:
        for parameter in parameters.values():
            parameter.grad = None


def _mean(tensors: Mapping[str, Array], name: str, divisor: float, parameter: nn.Parameter) -> Tensor:
    """A noisy sum over `divisor`, computed in float64, in the type and on the device of the parameter. Means that lie
    on a device already stay there; an optimizer gets a copy, which it may change."""
    if isinstance(tensors, OnDevice) and divisor == 1.0:
        return tensors.there[name].to(dtype=parameter.dtype, device=parameter.device, copy=True)
    noisy = tensors[name]
    if parameter.dtype == torch.float32:  # division and rounding in one pass
        mean = beside(parameter.device, noisy.shape, torch.float32)
        divide(noisy, divisor, mean.numpy())
        return mean.to(parameter.device, non_blocking=True)
    return torch.as_tensor(noisy / divisor).to(dtype=parameter.dtype, device=parameter.device)
