"""Engines that are looked at while they run.

`Watched` is for engines that run a batch as a batch: what a model does with a chunk must be what was proved to keep
rows apart; `Function` is the same for a function without parameters. `Forgetful` is for engines that run rows apart: a
model must not remember them. A chunk for which it is not so is done again, one unit at a time, each by a model that has
seen no other. So whatever a model does now and then, no row has to do with another, and nothing of a run tells whether
it did.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from discreet.clipping.clip import Clip
from discreet.clipping.losses import Criterion, is_of_torch
from discreet.clipping.replay import Generators
from discreet.clipping.separation.examine import Mixes, Run, examined, proved, recorded
from discreet.clipping.separation.memory import Kept, Memory
from discreet.clipping.separation.program import Program, Template
from discreet.clipping.separation.recorder import Recorder, forward, returns
from discreet.clipping.units import Units

_REMEMBERED = 64
"""Paths that are kept, of a model in which numbers that Python reads decide what runs."""

Sums = Callable[[nn.Module, Criterion, Tensor, Tensor, Clip, "Units | None"], dict[str, Tensor]]

Warm = Callable[[nn.Module, Criterion], None]
"""Runs a model on random rows, so that it makes what it makes at its first call."""


class Proofs:
    """What is proved to keep rows apart. `run`: as `examined` takes it, to find out what belongs to the numbers that
    Python reads from weights, which change."""

    def __init__(self, proved: Sequence[Template], run: Run) -> None:
        self._proved, self._run = [*proved], run

    def cover(self, ran: Program) -> bool:
        """Whether a program is one that was proved, and the one that belongs to the numbers that Python read in it."""
        known = next((one for one in self._proved if one.matches(ran)), None)
        if not ran.items:
            return known is not None
        try:
            with torch.random.fork_rng():
                if known is not None and known.matches(recorded(self._run, known.one.batch, ran.items)[0]):
                    return True
                template = examined(self._run, ran.items)
        except (Mixes, RuntimeError, ValueError, IndexError, TypeError):
            return False
        self._proved = [template, *self._proved[: _REMEMBERED - 1]]
        return template.matches(ran)


class Watched:
    """`ClippedSums` of an engine that runs batches as batches, and of `apart` for chunks that are not as was proved.

    `proved`: what the model does, as found before the run. `run`: runs a copy of the model that has seen no private
    row on random ones, to find out what belongs to the numbers that Python reads from weights. `again`: how many chunks
    were done again; all are, once a buffer of the model changes, or the memory of a loss that is none of torch.
    """

    def __init__(self, sums: Sums, apart: Sums, proved: list[Template], run: Run, warm: Warm) -> None:
        self._sums, self._apart, self._proofs, self._warm = sums, apart, Proofs(proved, run), warm
        self._kept: Kept | None = None
        self._changed = False
        self.again = 0

    def __call__(
        self,
        model: nn.Module,
        criterion: Criterion,
        inputs: Tensor,
        targets: Tensor,
        clip: Clip,
        units: Units | None = None,
    ) -> dict[str, Tensor]:
        if len(inputs) == 0:
            return self._sums(model, criterion, inputs, targets, clip, units)
        if self._kept is None:
            if not is_of_torch(criterion):
                self._warm(model, criterion)
            self._kept = Kept(model, criterion)
        start = Generators([inputs, *model.parameters()])
        if not self._changed:
            recorder, given = Recorder(plain_loss=is_of_torch(criterion)), inputs.clone()  # which may be written to
            with recorder.recording():
                found = self._sums(model, criterion, given, targets, clip, units)
            self._changed = not self._kept.is_kept(model, criterion)
            if not self._changed and all(map(self._proofs.cover, recorder.programs)):
                return found
            del found, given
        self.again += 1
        start.rewind()
        return self._apart(model, criterion, inputs, targets, clip, units)


class Function:
    """A function of rows that is called with all of them at once where that is proved to keep them apart, and with one
    at a time, by a copy that has seen no other, where it is not.

    `function`: from rows to as many, along axis 0. `rows`: random ones, of the same shape and type.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], rows: Tensor) -> None:
        self.function, self._rows = function, rows
        self._pristine = copy.deepcopy(function)
        self._proofs: Proofs | None = None
        self.again = 0
        with contextlib.suppress(Mixes, RuntimeError, ValueError, IndexError, TypeError), torch.random.fork_rng():
            self._proofs = Proofs([proved(self._run)], self._run)

    def __call__(self, inputs: Tensor) -> Tensor:
        if len(inputs) == 0:
            return self.function(inputs)
        start = Generators([inputs])
        if self._proofs is not None:
            recorder, given = Recorder(), inputs.clone()  # which it may write to
            with recorder.recording(), torch.no_grad(), forward(None, given):
                found = self.function(given)
                returns(found)
            if self._proofs.cover(recorder.programs[0]):
                return found
        self.again += 1
        start.rewind()
        return torch.cat([copy.deepcopy(self._pristine)(inputs[i : i + 1].clone()) for i in range(len(inputs))])

    def _run(self, rows: int) -> None:
        times = -(-rows // len(self._rows))
        inputs = self._rows.repeat(times, *[1] * (self._rows.dim() - 1))[:rows].clone()
        with torch.no_grad(), forward(None, inputs):
            returns(copy.deepcopy(self._pristine)(inputs))


class _Remembered(Exception):
    """What is not kept apart is no sum."""


class Forgetful:
    """`ClippedSums` of an engine that runs rows apart, until the model or the loss changes by being called; of `apart`
    for that chunk and from then on.

    `singly`: the engine calls the model once for each row. Then they are looked at after each: one row may have left
    something to the next, and the last row of the chunk have put it back.
    """

    def __init__(self, sums: Sums, apart: Sums, warm: Warm, *, singly: bool) -> None:
        self._sums, self._apart, self._warm, self._singly = sums, apart, warm, singly
        self._before: Memory | None = None
        self._changed = False

    def __call__(
        self,
        model: nn.Module,
        criterion: Criterion,
        inputs: Tensor,
        targets: Tensor,
        clip: Clip,
        units: Units | None = None,
    ) -> dict[str, Tensor]:
        if len(inputs) == 0:
            return self._sums(model, criterion, inputs, targets, clip, units)
        if self._before is None:
            self._warm(model, criterion)
            self._before = Memory(model, criterion)
        if not self._changed:
            start = Generators([inputs, *model.parameters()])
            try:
                loss = self._looking(model, criterion) if self._singly else criterion
                found = self._sums(model, loss, inputs, targets, clip, units)
                self._look(model, criterion)
                return found
            except _Remembered:
                start.rewind()
                self._changed = True
        return self._apart(model, criterion, inputs, targets, clip, units)

    def _looking(self, model: nn.Module, criterion: Criterion) -> Criterion:
        def loss(output: Tensor, target: Tensor) -> Tensor:
            found = criterion(output, target)
            self._look(model, criterion)
            return found

        return loss

    def _look(self, model: nn.Module, criterion: Criterion) -> None:
        assert self._before is not None
        if not self._before.is_kept(model, criterion):
            raise _Remembered
