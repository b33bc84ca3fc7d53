"""Samplers: which units take part in a step, with exactly the law that the sampler's event names."""

from discreet.sampling.largest import OVERFLOW, ROOM, largest_batch
from discreet.sampling.poisson import PoissonSampler
from discreet.sampling.sampler import Sampler

__all__ = ["OVERFLOW", "ROOM", "PoissonSampler", "Sampler", "largest_batch"]
