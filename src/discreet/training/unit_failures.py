"""Units on which model or loss fails at the weights of a step: they add nothing, and the run goes on.

Before the run all rows passed through both, at the initial weights. At later weights a row may fail (a loss that
refuses NaN, say, and large inputs that give one). An error would reveal that row without being paid for. A failure on
all rows should still be an error. So a random unit is tried at times that do not depend on data: with every new loss,
and before every block.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from discreet.clipping import Clip, Criterion
from discreet.clipping.losses import is_of_torch
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.copies import copied
from discreet.clipping.separation.recording.recorder import as_proved
from discreet.core.errors import InputError
from discreet.core.silence import unwarned
from discreet.data import PrivateData
from discreet.training.guard import refuse_other_arithmetic
from discreet.training.preflight.engine_check import Preflight
from discreet.training.preflight.random_rows import Examples, random_rows


def random_unit(model: nn.Module, data: PrivateData, classes: int | None, rows_per_unit: int) -> Examples | None:
    """A random unit in the shape of the private ones, of several rows if units have them; None if there can be none."""
    try:
        return random_rows(model, data, classes, rows_per_unit * data.views).part(3, 4)
    except Exception:  # a module or a transform may raise whatever it likes
        return None


class FailureProbe:
    """A `unit` of random rows on which engine, model and loss must not fail; None if they fail at the initial weights.

    Only copies of model and loss see it. The engine is that of the `preflight`, without its check at run time, on what
    was proved there.
    """

    CLIP = Clip(1.0, 2.0**-30)

    def __init__(self, preflight: Preflight, model: nn.Module, criterion: Criterion, unit: Examples | None) -> None:
        self._engine, self._arithmetic = preflight.plain or preflight.engine, preflight.arithmetic[1]
        self._model, self._criterion, self._unit = model, criterion, unit
        self._broadcast = preflight.proved[0].one.broadcast if preflight.proved else None
        self._tried: set[type] = set()
        self._works = False

    def repeat(self) -> Mapping[str, Tensor] | None:
        """Raise any failure at the present weights; the clipped gradient of the unit if there is none."""
        self.check_arithmetic()
        found = None
        try:
            found = self._try(self._criterion)
        except Exception:
            if self._works:
                raise
            self._unit = None  # they cannot take random data
        self._works = True
        return found

    def check_arithmetic(self) -> None:
        """Refuse settings of torch under which the model rounds otherwise than was measured before the run."""
        refuse_other_arithmetic(next(self._model.parameters()).device.type, self._arithmetic)

    def check(self, criterion: Criterion) -> None:
        """Refuse a loss that was not checked: neither that of the run, nor one of torch.nn (these keep no state and
        treat rows separately). Raise any failure of the latter."""
        kind = type(criterion)
        if criterion is self._criterion or kind in self._tried:
            return
        if not is_of_torch(criterion):
            raise InputError(
                "step.add was given another loss for the chunk than the Training, which checks that rows do not "
                "influence each other in it; give it to Training(criterion=...), and the same object to step.add"
            )
        self._try(criterion)
        self._tried.add(kind)

    def _try(self, criterion: Criterion) -> Mapping[str, Tensor] | None:
        if (unit := self._unit) is None:
            return None
        model, loss = copied(self._model, criterion)
        with unwarned(), torch.random.fork_rng(), as_proved(self._broadcast):
            seed_torch(0)  # so that several processes can compare what they found
            return self._engine.clipped_sum(model, loss, unit.copied(), self.CLIP)
