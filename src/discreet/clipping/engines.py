"""Engines: different ways to the same clipped sum.

Both process every example as a batch of one, so no module can mix examples. `reference` is slow and obvious;
`vmap` is the same function, vectorised by torch.func. Tests hold one to the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from discreet.clipping.admission import private_parameters
from discreet.clipping.factor import clipped_sum
from discreet.core.errors import UnsupportedModel

Criterion = Callable[[Any, Tensor], Tensor]
"""A loss of (model output, target), as in torch.nn; it is called with one example at a time."""

Engine = Callable[[nn.Module, Criterion, Tensor, Tensor, float], dict[str, Tensor]]
"""(model, criterion, inputs, targets, clip_norm) -> float64 sums of clipped gradients by parameter name.

`inputs` and `targets` have the examples along axis 0; there is at least one.
"""


def reference(
    model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip_norm: float
) -> dict[str, Tensor]:
    """One backward pass per example."""
    parameters = private_parameters(model)
    rows = []
    for i in range(len(inputs)):
        loss = criterion(model(inputs[i : i + 1]), targets[i : i + 1]).sum()
        row = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        rows.append([torch.zeros_like(p) if g is None else g for g, p in zip(row, parameters.values(), strict=True)])
    gradients = {name: torch.stack([row[k] for row in rows]) for k, name in enumerate(parameters)}
    return clipped_sum(gradients, clip_norm)


def vectorised(
    model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip_norm: float
) -> dict[str, Tensor]:
    """All examples of the chunk at once, through torch.func.vmap; memory grows with the chunk."""
    trainable = {name: parameter.detach() for name, parameter in private_parameters(model).items()}
    fixed = {
        name: tensor.detach()
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        if name not in trainable
    }

    def loss(parameters: dict[str, Tensor], example: Tensor, target: Tensor) -> Tensor:
        output = functional_call(model, {**parameters, **fixed}, (example.unsqueeze(0),))
        return criterion(output, target.unsqueeze(0)).sum()

    try:
        gradients = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(trainable, inputs, targets)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UnsupportedModel(f"the engine 'vmap' cannot run this model ({reason}); use engine='reference'") from error
    return clipped_sum(gradients, clip_norm)


ENGINES: dict[str, Engine] = {"reference": reference, "vmap": vectorised}
