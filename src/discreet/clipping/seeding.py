"""Seeding torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from discreet.clipping.capture.left_on import Surroundings
from discreet.randomness.host_generators import HostGenerators

_SEEDS = 2**62


def seed_torch(number: int) -> None:
    """Seed all of torch's generators.

    `torch.manual_seed` also stores a call, with its stack, for every kind of device that might be used later, which
    takes as long as a small step. So it is avoided where it is known which devices have generators: without an
    accelerator the CPU alone, and once CUDA is in use its cards.
    """
    if torch.accelerator.is_available():
        if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.manual_seed(number)
            return
        for generator in torch.cuda.default_generators:
            generator.manual_seed(number)
    torch.default_generator.manual_seed(number)


class SeededAfterwards:
    """After this context torch's generator starts from a secret number drawn before, whatever seed was set inside."""

    def __enter__(self) -> None:
        self._after = int(torch.randint(_SEEDS, ()))

    def __exit__(self, *error: object) -> None:
        seed_torch(self._after)


@contextmanager
def seeded_alike() -> Iterator[None]:
    """Inside, torch draws the same numbers every time. Afterwards the generators of torch, NumPy and Python have the
    states that they had."""
    host = HostGenerators()
    with torch.random.fork_rng():
        seed_torch(0)
        try:
            yield
        finally:
            host.rewind()


@contextmanager
def unit_seeds() -> Iterator[Callable[[], None]]:
    """Gives a function to call before each unit: it seeds torch's generator with a secret number that does not depend
    on what earlier units drew or seeded, and rewinds the global generators of NumPy and Python, which a row may use
    where nothing was checked; what an earlier unit left on in torch is taken off. Afterwards all have the states that
    they had before the first unit."""
    own, host, around = torch.Generator(), HostGenerators(), Surroundings()
    own.manual_seed(int(torch.randint(_SEEDS, ())))

    def seed() -> None:
        around.restore()
        host.rewind()
        seed_torch(int(torch.randint(_SEEDS, (), generator=own)))

    with torch.random.fork_rng():
        try:
            yield seed
        finally:
            around.restore()
            host.rewind()
