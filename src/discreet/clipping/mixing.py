"""Finding, by experiment, a module that lets the examples of a batch influence each other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping.capture import tensors_in


def mixing_module(model: nn.Module, inputs: Tensor) -> str | None:
    """Change one example at a time; name the first module, if any, whose output for another example moves.

    `inputs`: random examples, at least two, all different. Random numbers are the same in all runs.
    """
    usual = _outputs(model, inputs)
    for row in range(len(inputs)):
        changed = inputs.clone()
        changed[row] = inputs[(row + 1) % len(inputs)]
        for (name, before), (_, after) in zip(usual, _outputs(model, changed), strict=False):
            if _moved(before, after, row):
                return name
    return None


def _outputs(model: nn.Module, inputs: Tensor) -> list[tuple[str, Tensor]]:
    """What modules return, innermost first; those whose axis 0 has the size of the batch, and the model itself."""
    found: list[tuple[str, Tensor]] = []

    def record(name: str, module: nn.Module) -> Any:
        described = f"module {name or 'model'!r} ({type(module).__name__})"

        def hook(_: nn.Module, _args: object, returned: object) -> None:
            found.extend((described, part.detach().clone()) for part in tensors_in(returned))

        return module.register_forward_hook(hook)

    handles = [record(name, module) for name, module in model.named_modules(remove_duplicate=False)]
    try:
        with torch.no_grad():
            torch.manual_seed(0)
            model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    size = len(inputs)
    return [(name, part) for name, part in found if part.dim() > 0 and len(part) == size]


def _moved(before: Tensor, after: Tensor, row: int) -> bool:
    """Whether anything but `row` differs by more than rounding."""
    if before.shape != after.shape:
        return True
    keep = [i for i in range(len(before)) if i != row]
    one, other = before[keep], after[keep]
    if not one.is_floating_point():
        return not torch.equal(one, other)
    scale = float(before.abs().max()) if before.numel() else 0.0
    tolerance = 64 * torch.finfo(one.dtype).eps * max(scale, 1e-30)
    return not torch.allclose(one, other, rtol=0.0, atol=tolerance, equal_nan=True)
