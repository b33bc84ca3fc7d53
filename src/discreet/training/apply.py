"""The only place where a gradient is handed to an optimizer: from a release, and from nothing else."""

from __future__ import annotations

import torch
from torch import nn

from discreet.core.release import Release


def apply(
    release: Release, parameters: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, divisor: float
) -> None:
    """Let the optimizer take one step with the noisy mean `release / divisor`, then clear the gradients.

    `divisor` is a public constant: the expected batch of the plan.
    """
    for name, parameter in parameters.items():
        mean = torch.as_tensor(release.tensors[name] / divisor)
        parameter.grad = mean.to(dtype=parameter.dtype, device=parameter.device)
    optimizer.step()
    for parameter in parameters.values():
        parameter.grad = None
