"""Engines that are checked while they run.

Private rows run through twins of the trained model; the model itself sees none of them (`copies`). `Apart` takes one
unit at a time and never uses a twin again that a unit has changed, so every unit meets the same model. `Together` runs
a chunk as a batch: the model must run a program that was proved to keep rows apart, or else the chunk is done again,
one unit at a time. So even if a model sometimes behaves differently, no row influences what another one adds, and
nothing of a run shows that it did. `function.Function` does the same for a function without parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.compiler import set_stance

from discreet.clipping.admission.admission import private_parameters
from discreet.clipping.capture.left_on import Surroundings
from discreet.clipping.clip import BIT, Clip
from discreet.clipping.engines.clipped_sums import ClippedSums, sums_of_none
from discreet.clipping.losses import Criterion, after_each, holds_nothing, is_of_torch
from discreet.clipping.replay import Generators
from discreet.clipping.rules.vectorised import run_as
from discreet.clipping.seeding import SeededAfterwards, unit_seeds
from discreet.clipping.separation.copies import Twin, Twins
from discreet.clipping.separation.examine import FEWEST, Run, examined, recorded
from discreet.clipping.separation.memory import Memory
from discreet.clipping.separation.recording.program import BroadcastParameter, Op, Program, Template
from discreet.clipping.separation.recording.recorder import Recorder, as_proved
from discreet.clipping.units import Chunk
from discreet.core.errors import PrivacyViolation
from discreet.randomness.host_generators import HostGenerators

_REMEMBERED = 64
"""The most programs that are kept of a model in which numbers read by Python decide what runs."""

NOT_OF_A_ROW = (PrivacyViolation, MemoryError, torch.OutOfMemoryError, KeyboardInterrupt, GeneratorExit)
"""What ends a run; after anything else that is raised the run goes on without the row."""


class Proofs:
    """The programs that are proved to keep rows apart. `run`: the argument of `examined`, which is used again if
    Python reads numbers from weights, since weights change."""

    def __init__(self, proved: Sequence[Template], run: Run) -> None:
        self._proved, self._run = [*proved], run

    def expected(self, batch: int) -> Sequence[Op]:
        """The operators that most likely run on a batch."""
        return self._proved[0].at(batch)[0] if self._proved else ()

    @property
    def broadcast(self) -> tuple[BroadcastParameter, ...]:
        """The parameters that are proved to be clipped where they are broadcast over the examples."""
        return self._proved[0].one.broadcast if self._proved else ()

    def cover(self, ran: Program) -> bool:
        """Whether a program is proved, and is the one that belongs to the numbers that Python read in it."""
        known = next((one for one in self._proved if one.matches(ran)), None)
        if not ran.items:
            return known is not None
        try:
            with torch.random.fork_rng():
                if known is not None and known.matches(self._again(known, ran.items)):
                    return True
                template = examined(self._run, ran.items)
        except NOT_OF_A_ROW:
            raise
        except BaseException:  # a module may raise any error at numbers that were read from a row
            return False
        self._proved = [template, *self._proved[: _REMEMBERED - 1]]
        return template.matches(ran)

    def _again(self, known: Template, items: Sequence[Any]) -> Program:
        """The program that the model runs now, on as many random rows as in `known`, where Python reads `items`."""
        with as_proved(known.one.broadcast):
            return recorded(self._run, known.one.batch, items)[0]


class Apart:
    """`ClippedSums` of an engine that runs rows apart, one unit at a time.

    A unit adds nothing if model or loss fails on it, or if a gradient is missing or of another shape, since a row may
    freeze a parameter of its twin, or exchange its numbers. Nothing runs that `torch.compile` made: which code that is,
    and so the last digits, would depend on the rows that came before.
    """

    def __init__(self, sums: ClippedSums, twins: Twins) -> None:
        self._sums, self._twins = sums, twins

    def __call__(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> dict[str, Tensor]:
        total, host, kept = sums_of_none(model, clip), HostGenerators(), False
        with set_stance("force_eager"), unit_seeds() as seed:
            for unit in chunk.one_by_one():
                twin = self._twins.again() if kept else self._twins.of(model, criterion)
                seed()
                host.rewind()  # before each: a row may put back what an earlier one drew
                found = sums_or_none(self._sums, twin, unit, clip)
                if found is not None and _alike(found, total):
                    for name, part in found.items():
                        total[name] += part
                kept = self._twins.look(model)
        host.rewind()
        return total


def _alike(sums: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> bool:
    """Whether clipped sums have the names, shapes and devices of those that they are added to. Others would fail there,
    which tells of a row; or they would be repeated to fit, and be longer than the clip norm."""
    return sums.keys() == wanted.keys() and all(
        part.shape == wanted[name].shape and part.device == wanted[name].device for name, part in sums.items()
    )


class Together:
    """`ClippedSums` of an engine that runs a chunk at once.

    If the model does not run a proved program on a chunk, the chunk is done again, one unit at a time: alone, or filled
    up with copies of its first row, if the program is proved then, or else by `apart`. So the contribution of a unit
    does not depend on whether the program of the others is proved, even if a model treats one row unlike several.

    A model might treat units that are done again unlike chunks: by what it counts, or by what a loop has set since it
    was proved. So random rows (`tried`, by their number) are done as such units are, whenever model or loss have
    changed but for their parameters, and with every chunk if Python reads numbers. Where no proved program runs on
    them, all chunks are done again, and each unit by a twin that has seen none before. `tried` is None where nobody can
    make such rows.

    `proofs`: the proved programs of the model on batches; None for an engine whose arithmetic keeps rows apart.
    `again`: the number of chunks that were done again.
    """

    def __init__(
        self,
        sums: ClippedSums,
        apart: ClippedSums,
        twins: Twins,
        proofs: Proofs | None,
        tried: Callable[[int], Chunk] | None = None,
    ) -> None:
        self._sums, self._apart, self._twins, self._proofs, self._tried = sums, apart, twins, proofs, tried
        self._known: dict[int, bool] = {}
        self._known_of: object = None
        self._reads = False
        self.again = 0

    def __call__(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]:
        with SeededAfterwards():
            return self._sum(model, criterion, chunk, clip)

    def _sum(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]:
        start = Generators(itertools.chain((chunk.inputs,), model.parameters()))
        found = self._as_proved(model, criterion, chunk, clip)
        certain = self._is_certain(model, criterion, chunk, clip, anew=found is None)
        if found is not None and certain:
            return found
        total = sums_of_none(model, clip)
        self.again += 1
        start.rewind()
        for unit in chunk.one_by_one():
            for name, part in self.alone(model, criterion, unit, clip, fresh=not certain).items():
                total[name] += part
        return total

    def alone(
        self, model: nn.Module, criterion: Criterion, unit: Chunk, clip: Clip, *, fresh: bool = True
    ) -> Mapping[str, Tensor]:
        """The sum that a unit adds: by a proved program, alone or among copies that add nothing; or else by `apart`.
        `fresh`: by a twin that has seen no unit before."""
        if fresh:
            self._twins.drop()
        start = Generators(itertools.chain((unit.inputs,), model.parameters()))
        missing = _rows_at_least(unit, len(unit.inputs)) - len(unit.inputs)
        for chunk in (unit, unit.filled(missing)) if self._proofs is not None else (unit,):
            found = self._as_proved(model, criterion, chunk, clip)
            if found is not None:
                return found
            start.rewind()
        return self._apart(model, criterion, unit, clip)

    def _is_certain(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip, *, anew: bool) -> bool:
        """Whether a proved program runs on random rows through a twin that has seen no others, as many as a unit of
        this chunk would be filled up to. What was found before is said again, unless `anew`; no private number decides
        what is found."""
        if self._proofs is None or self._tried is None:
            return True
        if self._known_of is not self._twins.source:
            self._known, self._known_of = {}, self._twins.source
        units = chunk.grouped()
        sizes = {_rows_at_least(chunk, size) for size in units.sizes[: len(units) - units.padding]}
        after = Generators(itertools.chain((chunk.inputs,), model.parameters()))
        for rows in sizes if anew or self._reads else sizes - self._known.keys():
            tried = self._tried(rows)
            moved = Chunk(tried.inputs.to(chunk.inputs.device), tried.targets.to(chunk.targets.device))
            self._twins.drop()
            self._known[rows] = self._as_proved(model, criterion, moved, clip) is not None
        after.rewind()
        return all(self._known[rows] for rows in sizes)

    def _as_proved(
        self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip
    ) -> Mapping[str, Tensor] | None:
        """The sum, if the model ran a proved program on these rows and remembers none of them; else None."""
        twin, host = self._twins.of(model, criterion), HostGenerators()
        recorder = None
        if self._proofs is not None:
            recorder = Recorder(plain_loss=is_of_torch(criterion), expected=self._proofs.expected)
        recording = nullcontext() if recorder is None else recorder.recording()
        proved = () if self._proofs is None else self._proofs.broadcast
        as_before = nullcontext() if self._proofs is None else run_as(self._twins.as_before())
        with recording, as_proved(proved), as_before, _each_loss_looked_at(twin.criterion):
            found = sums_or_none(self._sums, twin, chunk.copied(), clip)  # rows may be written to
        covered = recorder is None or self._proofs is None or all(map(self._proofs.cover, recorder.programs))
        self._reads = self._reads or (recorder is not None and any(one.items for one in recorder.programs))
        if host.rewind() or not covered or not self._twins.look(model):
            self._twins.drop()
            return None
        if found is None or found.keys() != {*private_parameters(model), *([BIT] if clip.bit else [])}:
            self._twins.drop()  # it may be about to do something before the next forward pass is recorded
            return None
        return found


def sums_or_none(sums: ClippedSums, twin: Twin, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor] | None:
    """The sums of an engine for a chunk, with a twin as the model; None on an error, since raising it would tell about
    a row. Whatever a row changed of gradient mode and default type is undone, and what it left on is taken off.

    Backward passes stay in this thread, where a recorder sees them: `inference_mode(False)` alone would let those of
    cards run in others again."""
    dtype, around = torch.get_default_dtype(), Surroundings()
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autograd.set_multithreading_enabled(False):
            found = sums(twin.model, twin.criterion, chunk, clip)
        around.check()
        return found
    except NOT_OF_A_ROW:
        raise
    except BaseException:  # a module may raise any error
        return None
    finally:
        around.restore()
        torch.set_default_dtype(dtype)


@contextmanager
def _each_loss_looked_at(criterion: Criterion) -> Iterator[None]:
    """Inside, a custom loss that is called row by row must not remember a row, not even until the next one."""
    if holds_nothing(criterion):
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


def _rows_at_least(chunk: Chunk, size: int) -> int:
    """The rows to which a unit of `size` rows is filled up where it is done again. No other unit decides it."""
    return max(FEWEST, size, 1 if chunk.units is None else chunk.units.at_most)


class _Remembered(Exception):
    """Ends the sum of a chunk: the loss remembers a row."""
