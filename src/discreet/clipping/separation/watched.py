"""Engines that are looked at while they run.

Private rows are run through twins of the model that is trained, which sees none (`copies`). `Apart` takes one unit at a
time; a twin that a unit has changed is not used again, so every unit meets the same model. `Together` runs a batch as a
batch: what a model does with a chunk must be what was proved to keep rows apart, or the chunk is done again by `Apart`.
`Function` is the same for a function without parameters. So whatever a model does now and then, no row has to do with
another, and nothing of a run tells whether it did.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.clip import BIT, Clip
from discreet.clipping.losses import Criterion, after_each, is_of_torch
from discreet.clipping.replay import Generators
from discreet.clipping.seeding import seeded_afterwards, unit_seeds
from discreet.clipping.separation.copies import Twin, Twins
from discreet.clipping.separation.examine import FEWEST, Mixes, Run, examined, proved, recorded
from discreet.clipping.separation.memory import Memory
from discreet.clipping.separation.program import Program, Template
from discreet.clipping.separation.recorder import Recorder, forward, returns
from discreet.clipping.units import Units
from discreet.core.errors import PrivacyViolation
from discreet.randomness.host_generators import HostGenerators

_REMEMBERED = 64
"""Paths that are kept, of a model in which numbers that Python reads decide what runs."""

Sums = Callable[[nn.Module, Criterion, Tensor, Tensor, Clip, "Units | None"], dict[str, Tensor]]

NOT_OF_A_ROW = (PrivacyViolation, MemoryError, torch.OutOfMemoryError)
"""Errors that are not answered by going on without a row."""


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


class Apart:
    """`ClippedSums` of an engine that runs rows apart, one unit at a time.

    A unit on which model or loss fails adds nothing, nor does one of which a gradient is missing, as a row may freeze a
    parameter of the twin that it meets.
    """

    def __init__(self, sums: Sums, twins: Twins) -> None:
        self._sums, self._twins = sums, twins

    def __call__(
        self,
        model: nn.Module,
        criterion: Criterion,
        inputs: Tensor,
        targets: Tensor,
        clip: Clip,
        units: Units | None = None,
    ) -> dict[str, Tensor]:
        start, host, parts = Generators([inputs]), HostGenerators(), (inputs, targets)
        total = self._total(model, criterion, parts, clip, units, lambda: None)
        if not host.rewind():
            return total
        start.rewind()
        return self._total(model, criterion, parts, clip, units, host.rewind)

    def _total(
        self,
        model: nn.Module,
        criterion: Criterion,
        chunk: tuple[Tensor, Tensor],
        clip: Clip,
        units: Units | None,
        after: Callable[[], object],
    ) -> dict[str, Tensor]:
        """The sum; `after` is called after each unit."""
        total, twin = sums_of_none(model, clip), self._twins.of(model, criterion)
        with unit_seeds() as seed:
            for x, y, unit in one_by_one(chunk, units):
                seed()
                found = attempted(self._sums, twin, x, y, clip, unit)
                after()
                if found is not None and found.keys() == total.keys():
                    for name, part in found.items():
                        total[name] += part
                if not self._twins.look(model):
                    twin = self._twins.of(model, criterion)
        return total


class Together:
    """`ClippedSums` of an engine that runs a chunk at once.

    A chunk that is not as was proved is done again, one unit at a time: alone, or in a batch with copies of itself, if
    that is as was proved, or else by `apart`. So what a unit adds is the same whether the others are as was proved or
    not, also where a model does something else with one row than with several.

    `proofs`: what the model is proved to do with batches; None for an engine whose arithmetic keeps rows apart.
    `again`: how many chunks were done again.
    """

    def __init__(self, sums: Sums, apart: Sums, twins: Twins, proofs: Proofs | None) -> None:
        self._sums, self._apart, self._twins, self._proofs = sums, apart, twins, proofs
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
        with seeded_afterwards():
            return self._sum(model, criterion, inputs, targets, clip, units)

    def _sum(
        self, model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None
    ) -> dict[str, Tensor]:
        start = Generators([inputs, *model.parameters()])
        found = self._as_proved(model, criterion, inputs, targets, clip, units)
        if found is not None:
            return found
        total = sums_of_none(model, clip)
        self.again += 1
        start.rewind()
        for x, y, unit in one_by_one((inputs, targets), units):
            for name, part in self._alone(model, criterion, x, y, clip, unit).items():
                total[name] += part
        return total

    def _alone(
        self, model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, unit: Units | None
    ) -> dict[str, Tensor]:
        """What a unit adds: as proved, alone or among copies that add nothing; or else whatever it is."""
        start = Generators([inputs, *model.parameters()])
        for times in (1, FEWEST) if self._proofs is not None else ():
            rows = [part.repeat(times, *[1] * (part.dim() - 1)) for part in (inputs, targets)]
            filled = unit if times == 1 else Units((len(inputs),) * times, padding=times - 1)
            found = self._as_proved(model, criterion, rows[0], rows[1], clip, filled)
            if found is not None:
                return found
            start.rewind()
        return self._apart(model, criterion, inputs, targets, clip, unit)

    def _as_proved(
        self, model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None
    ) -> dict[str, Tensor] | None:
        """The sum, if the model did with these rows what it is proved to do, and remembers none of them."""
        twin, host = self._twins.of(model, criterion), HostGenerators()
        recorder = None if self._proofs is None else Recorder(plain_loss=is_of_torch(criterion))
        with nullcontext() if recorder is None else recorder.recording(), _each_loss_looked_at(twin.criterion):
            found = attempted(self._sums, twin, inputs.clone(), targets.clone(), clip, units)  # which may be written to
        covered = recorder is None or self._proofs is None or all(map(self._proofs.cover, recorder.programs))
        if host.rewind() or not covered or not self._twins.look(model):
            self._twins.drop()
            return None
        return found if found is not None and found.keys() == names_of(model, clip) else None


def attempted(
    sums: Sums, twin: Twin, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None
) -> dict[str, Tensor] | None:
    """What an engine makes of rows, by a twin; None if that fails, since an error would tell of a row. Gradients are on
    for the next ones too, and the default type is as it was."""
    dtype = torch.get_default_dtype()
    try:
        with torch.enable_grad():
            return sums(twin.model, twin.criterion, inputs, targets, clip, units)
    except NOT_OF_A_ROW:
        raise
    except (Exception, SystemExit):  # a module may raise whatever it likes
        return None
    finally:
        torch.set_default_dtype(dtype)


@contextmanager
def _each_loss_looked_at(criterion: Criterion) -> Iterator[None]:
    """Inside, a loss of one's own that is called row by row must not remember a row, not even to the next one."""
    if is_of_torch(criterion):
        yield
        return
    before = Memory(None, criterion)

    def look() -> None:
        if not before.is_kept(None, criterion):
            raise _Remembered

    token = after_each.set(look)
    try:
        yield
    finally:
        after_each.reset(token)


class _Remembered(Exception):
    """What is not kept apart is no sum."""


def one_by_one(chunk: tuple[Tensor, Tensor], units: Units | None) -> Iterator[tuple[Tensor, Tensor, Units | None]]:
    """(inputs, targets, units) of each unit of a chunk, each in memory of its own; those that fill it up left out."""
    inputs, targets = chunk
    sizes = [1] * len(inputs) if units is None else list(units.sizes)
    count = len(sizes) - (0 if units is None else units.padding)
    parts = zip(torch.split(inputs, sizes), torch.split(targets, sizes), sizes, strict=True)
    for x, y, size in itertools.islice(parts, count):
        yield x.clone(), y.clone(), None if units is None else Units((size,))


def names_of(model: nn.Module, clip: Clip) -> set[str]:
    """What a clipped sum has."""
    return {*private_parameters(model), *([BIT] if clip.bit else [])}


def sums_of_none(model: nn.Module, clip: Clip) -> dict[str, Tensor]:
    """The clipped sum of no unit: float64 zeros by parameter, and for the bit of the clip if it has one."""
    parameters = private_parameters(model).items()
    zeros = {name: torch.zeros(one.shape, dtype=torch.float64, device=one.device) for name, one in parameters}
    return zeros | ({BIT: torch.zeros(1, dtype=torch.float64)} if clip.bit else {})


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
        start, host = Generators([inputs]), HostGenerators()
        if self._proofs is not None:
            recorder, given, found = Recorder(), inputs.clone(), None  # which it may write to
            with recorder.recording(), torch.no_grad(), forward(None, given), contextlib.suppress(Exception):
                found = self.function(given)
                returns(found)
            if not host.rewind() and found is not None and self._proofs.cover(recorder.programs[0]):
                return found
        self.again += 1
        start.rewind()
        return torch.cat(self._one_by_one(inputs, host))

    def _one_by_one(self, inputs: Tensor, host: HostGenerators) -> list[Tensor]:
        """Each row by a copy; one on which it fails becomes NaN, or zero, and has the shape of another. The error, if
        it fails on all."""
        parts: dict[int, Tensor] = {}
        error: Exception | None = None
        with unit_seeds() as seed:
            for i, row in enumerate(torch.split(inputs, 1)):
                seed()
                try:
                    parts[i] = copy.deepcopy(self._pristine)(row.clone())
                except Exception as raised:  # a transform may raise whatever it likes
                    error = raised
                host.rewind()
        if error is not None and not parts:
            raise error
        shape = next(iter(parts.values()))
        none = torch.full_like(shape, torch.nan) if shape.is_floating_point() else torch.zeros_like(shape)
        return [parts.get(i, none) for i in range(len(inputs))]

    def _run(self, rows: int) -> None:
        times = -(-rows // len(self._rows))
        inputs = self._rows.repeat(times, *[1] * (self._rows.dim() - 1))[:rows].clone()
        with torch.no_grad(), forward(None, inputs):
            returns(copy.deepcopy(self._pristine)(inputs))
