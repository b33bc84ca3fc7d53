"""Samplers: which units take part in a step, with exactly the law that the sampler's event names.

A sampler is a file: the law, the record of it in a plan, its words, and what the command line takes for it.
NumPy is loaded by the first draw, so that help and `--version` need not wait for it.
"""

from discreet.sampling.allocation import AllocationSampler, AllocationSampling
from discreet.sampling.cyclic_poisson import CyclicPoissonSampler, CyclicPoissonSampling
from discreet.sampling.everyone import EveryoneSampler, NoSampling
from discreet.sampling.fixed_size import FixedSizeSampler, FixedSizeSampling
from discreet.sampling.individual import IndividualSampler, IndividualSampling
from discreet.sampling.largest import OVERFLOW, ROOM, largest_batch
from discreet.sampling.options import Draws, Options
from discreet.sampling.poisson import PoissonSampler, PoissonSampling
from discreet.sampling.record import SAMPLERS, SamplingRecord, register
from discreet.sampling.sampler import DealingSampler, Sampler, address, as_promised
from discreet.sampling.shuffle import ShuffleSampler, ShuffleSampling
from discreet.sampling.truncated_poisson import TruncatedPoissonSampler, TruncatedPoissonSampling

__all__ = [
    "OVERFLOW",
    "ROOM",
    "SAMPLERS",
    "AllocationSampler",
    "AllocationSampling",
    "CyclicPoissonSampler",
    "CyclicPoissonSampling",
    "DealingSampler",
    "Draws",
    "EveryoneSampler",
    "FixedSizeSampler",
    "FixedSizeSampling",
    "IndividualSampler",
    "IndividualSampling",
    "NoSampling",
    "Options",
    "PoissonSampler",
    "PoissonSampling",
    "Sampler",
    "SamplingRecord",
    "ShuffleSampler",
    "ShuffleSampling",
    "TruncatedPoissonSampler",
    "TruncatedPoissonSampling",
    "address",
    "as_promised",
    "largest_batch",
    "register",
]

for _record in (
    PoissonSampling,
    TruncatedPoissonSampling,
    FixedSizeSampling,
    ShuffleSampling,
    AllocationSampling,
    CyclicPoissonSampling,
    NoSampling,
    IndividualSampling,
):
    register(_record)
