"""From a batch to a sum that no example can move by more than the clip norm."""

from discreet.clipping.accumulate import Accumulator
from discreet.clipping.admission.admission import (
    admit_model,
    admit_optimizer,
    private_parameters,
    refuse_used_optimizer,
)
from discreet.clipping.admission.backward_mixing import LOSS, mixing_backward
from discreet.clipping.admission.batch_norm import replace_batch_norm
from discreet.clipping.admission.foreign import foreign_tensors
from discreet.clipping.admission.mixing import Findings, try_out
from discreet.clipping.admission.modes import evaluation_mode, frozen_norms, modes_kept, training_mode
from discreet.clipping.admission.rule_battery import check_rule
from discreet.clipping.clip import BIT, Clip, Group
from discreet.clipping.engines.engine import ENGINES, Engine
from discreet.clipping.losses import Criterion
from discreet.clipping.units import Chunk, Units

__all__ = [
    "BIT",
    "ENGINES",
    "LOSS",
    "Accumulator",
    "Chunk",
    "Clip",
    "Criterion",
    "Engine",
    "Findings",
    "Group",
    "Units",
    "admit_model",
    "admit_optimizer",
    "check_rule",
    "evaluation_mode",
    "foreign_tensors",
    "frozen_norms",
    "mixing_backward",
    "modes_kept",
    "private_parameters",
    "refuse_used_optimizer",
    "replace_batch_norm",
    "training_mode",
    "try_out",
]
