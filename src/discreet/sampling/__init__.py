"""Samplers: which units take part in a step, with exactly the law that the sampler's event names."""

from discreet.sampling.allocation import AllocationSampler
from discreet.sampling.everyone import EveryoneSampler
from discreet.sampling.fixed_size import FixedSizeSampler
from discreet.sampling.largest import OVERFLOW, ROOM, largest_batch
from discreet.sampling.poisson import PoissonSampler, TruncatedPoissonSampler
from discreet.sampling.sampler import Sampler
from discreet.sampling.shuffle import ShuffleSampler

__all__ = [
    "OVERFLOW",
    "ROOM",
    "AllocationSampler",
    "EveryoneSampler",
    "FixedSizeSampler",
    "PoissonSampler",
    "Sampler",
    "ShuffleSampler",
    "TruncatedPoissonSampler",
    "largest_batch",
]
