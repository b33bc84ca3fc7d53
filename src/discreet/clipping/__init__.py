"""From a batch to a sum that no example can move by more than the clip norm."""

from discreet.clipping.accumulate import Accumulator
from discreet.clipping.admission import admit_model, admit_optimizer, private_parameters
from discreet.clipping.engines import ENGINES, Engine
from discreet.clipping.losses import Criterion
from discreet.clipping.mixing import mixing_module
from discreet.clipping.policies import BIT, Clip, Group
from discreet.clipping.units import Units

__all__ = [
    "BIT",
    "ENGINES",
    "Accumulator",
    "Clip",
    "Criterion",
    "Engine",
    "Group",
    "Units",
    "admit_model",
    "admit_optimizer",
    "mixing_module",
    "private_parameters",
]
