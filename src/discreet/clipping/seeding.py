"""Seeding torch's generators, cheaply where there are only processors."""

from __future__ import annotations

from functools import cache

import torch


def seed_torch(number: int, device: str | None = None) -> None:
    """`torch.manual_seed` for what draws on a type of device, or on any that this machine has.

    On processors it seeds their generator alone: `torch.manual_seed` also notes a call, with the stack, for every kind
    of device that may be used later, and that takes as long as a small step.
    """
    if device == "cpu" or (device is None and _only_processors()):
        torch.default_generator.manual_seed(number)
    else:
        torch.manual_seed(number)


@cache
def _only_processors() -> bool:
    return not (torch.cuda.is_available() or torch.xpu.is_available() or torch.backends.mps.is_available())
