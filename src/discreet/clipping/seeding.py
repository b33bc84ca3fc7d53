"""Seeding torch."""

from __future__ import annotations

import torch


def seed_torch(number: int) -> None:
    """Seed every generator of torch that there is.

    Without an accelerator that is the processor's: `torch.manual_seed` would also keep a call, and the stack it came
    from, for every kind of device that might be used later, which takes as long as a small step.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)
