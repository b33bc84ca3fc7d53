"""Seeding torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_SEEDS = 2**62


def seed_torch(number: int) -> None:
    """Seed every generator of torch that there is.

    Without an accelerator that is the processor's: `torch.manual_seed` would also keep a call, and the stack it came
    from, for every kind of device that might be used later, which takes as long as a small step.
    """
    if torch.accelerator.is_available():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)


@contextmanager
def seeded_afterwards() -> Iterator[None]:
    """Afterwards torch's generator starts from a secret number that was drawn before, whatever was seeded inside."""
    after = int(torch.randint(_SEEDS, ()))
    try:
        yield
    finally:
        seed_torch(after)


@contextmanager
def unit_seeds() -> Iterator[Callable[[], None]]:
    """What to call before each unit: it seeds torch's generator with a secret number, which no unit before has to do
    with, whatever it has drawn or seeded. The generator seeds the first; afterwards it is where it was then."""
    own = torch.Generator()
    own.manual_seed(int(torch.randint(_SEEDS, ())))
    with torch.random.fork_rng():
        yield lambda: seed_torch(int(torch.randint(_SEEDS, (), generator=own)))
