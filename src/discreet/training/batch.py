"""One batch of a run, in physical chunks, which a training loop adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple, Protocol

from torch import Tensor, nn

from discreet.clipping import Chunk, Clip, Criterion, Engine, Units
from discreet.clipping.seeding import seed_torch, unit_seeds
from discreet.clipping.separation.memory import writes_to
from discreet.core.array_types import IntArray
from discreet.core.errors import InputError, PrivacyViolation
from discreet.core.release import ClippedSum
from discreet.core.silence import unwarned
from discreet.data import PrivateData
from discreet.training.augmented_views import views_of
from discreet.training.guard import mode_of
from discreet.training.individual_filter import IndividualFilter
from discreet.training.unit_failures import FailureProbe

Rows = tuple[Tensor, Tensor]
"""Inputs and targets of a chunk, as a loop gets them."""


class Piece(NamedTuple):
    """The rows of a chunk; the unit of each where a unit may have several rows; a seed for torch's generator where a
    lane begins."""

    rows: IntArray
    units: Units | None = None
    seed: int | None = None

    @property
    def size(self) -> int:
        """The number of its units."""
        return len(self.rows) if self.units is None else len(self.units)


class Sums(Protocol):
    """The clipped sum of a batch, to which chunks are added (`clipping.Accumulator`)."""

    @property
    def size(self) -> int: ...
    def add(self, sums: Mapping[str, Tensor]) -> None: ...
    def sensitivity(self, engine: Engine, clip: Clip, largest_batch: int) -> float: ...
    def total(self, engine: Engine, clip: Clip, largest_batch: int) -> ClippedSum: ...


_LEFT_OUT = "a chunk of the step was not added; call step.add for every chunk of step.chunks"


class Context(NamedTuple):
    """The parts of a run that a batch needs. `check_values` refuses weights that no release made. `filter`: decides
    who takes part where units have budgets of their own; then a chunk is one unit."""

    model: nn.Module
    parameters: Mapping[str, nn.Parameter]
    data: PrivateData
    engine: Engine
    probe: FailureProbe
    check_values: Callable[[], None]
    filter: IndividualFilter | None = None


class Batch:
    """One batch, in physical chunks. Each chunk must be added exactly once before the step ends.

    A chunk is copied before it is handed out, and the copy is added, so a loop cannot change it. A chunk is refused if
    torch counted a write to it; other writes (through `.data`, NumPy, storage) have no effect.
    """

    def __init__(self, context: Context, pieces: list[Piece], clip: Clip, sums: Sums) -> None:
        self._context = context
        self._pieces = pieces
        self.added = 0  # units
        self.mode: str | None = None  # in which chunks were computed
        self._size = 0  # units of the chunk that was fetched last
        self._handed_out = 0
        self._open: Rows | None = None
        self._kept: Chunk | None = None
        self._writes: list[int] = []
        self._clip = clip
        self._sum = sums

    @property
    def clip(self) -> Clip:
        """The clip of the step; its scales are copies."""
        scales = self._clip.scales
        return self._clip if scales is None else replace(self._clip, scales={k: v.clone() for k, v in scales.items()})

    @property
    def chunks(self) -> Iterator[Rows]:
        """(inputs, targets) of the batch, chunk by chunk; none if no unit was drawn."""
        for chunk in self._fetched():
            self._kept = chunk.copied()  # a data set or a transform may keep what it returned
            self._open = chunk.inputs, chunk.targets
            self._writes = [writes_to(part) for part in self._open]
            yield self._open

    def add_all(self, criterion: Criterion) -> None:
        """Add every chunk of the batch: `chunks` and `add` in one call. No chunk is handed out, so none is copied."""
        self._context.probe.check(criterion)
        for chunk in self._fetched():
            if self._handed_out > 1:
                self._context.check_values()  # a module may have found the weights, and may put them back later
            self._add(criterion, chunk)

    def _fetched(self) -> Iterator[Chunk]:
        if self._handed_out:
            raise InputError("step.chunks was already iterated; keep what you need from the first pass")
        device = next(iter(self._context.parameters.values())).device
        for piece in self._pieces:
            self._refuse_open_chunk()
            if piece.seed is not None:
                seed_torch(piece.seed)
            seeded = unit_seeds() if self._context.data.runs_code else nullcontext(lambda: None)
            # Rows may seed torch's generator; what the model draws is secret all the same.
            with unwarned(), seeded as seed:
                inputs, targets = (part.to(device) for part in self._context.data.fetch(piece.rows, each=seed))
                seed()
                chunk = views_of(self._context.data, Chunk(inputs, targets, piece.units))
            self._handed_out += 1
            self._size = piece.size
            yield chunk

    def add(self, criterion: Criterion, chunk: Rows) -> None:
        """Clip every unit's gradient of `criterion(model(input), target)` and add it to the batch's sum.

        `criterion` sees one example at a time, so its reduction does not matter; a user's gradient is the mean over the
        user's examples. The engine runs the backward pass; calling `backward` yourself inside a step is refused. A unit
        on which model or loss fails adds nothing (`training.unit_failures`). A loss that is neither the one given to
        Training nor one of torch.nn was not checked, and is refused.
        """
        if self._open is None or self._kept is None:
            raise InputError("step.add needs the current chunk of step.chunks, once; this one was added already")
        inputs, targets = chunk
        if inputs is not self._open[0] or targets is not self._open[1]:
            raise InputError("step.add needs the current chunk of step.chunks; add its tensors as they came")
        if [writes_to(part) for part in self._open] != self._writes:
            raise InputError(
                "a chunk of the step was changed in place; add it as it came, and transform rows in the data set, the "
                "model or Augmented, each by itself"
            )
        self._context.check_values()  # weights may be changed after the step began and put back before it ends
        self._context.probe.check(criterion)
        self._add(criterion, self._kept)
        self._open = self._kept = None

    def close(self) -> None:
        """Refuse a step in which a chunk was left out."""
        self._refuse_open_chunk()
        if self._handed_out < len(self._pieces):
            raise InputError(_LEFT_OUT)

    def bound(self, largest_batch: int) -> tuple[int, float, float]:
        """The facts of the sum that are known beforehand: its size, its sensitivity and its grid."""
        sensitivity = self._sum.sensitivity(self._context.engine, self._clip, largest_batch)
        return self._sum.size, sensitivity, self._clip.grid

    def total(self, largest_batch: int) -> ClippedSum:
        """The sum of the batch, with its sensitivity. It can be taken once; then nothing can be added."""
        return self._sum.total(self._context.engine, self._clip, largest_batch)

    def _add(self, criterion: Criterion, chunk: Chunk) -> None:
        self._context.probe.check_arithmetic()
        mode = mode_of(self._context.model, bits=self._context.engine.error is None)
        if self.mode not in (None, mode):
            raise PrivacyViolation(
                "the model was in another mode, had other hooks, another autocast or other threads in an earlier chunk "
                "of the step; a unit may be in any chunk, so all are computed alike"
            )
        self.mode = mode
        with unwarned():
            sums = self._context.engine.clipped_sum(self._context.model, criterion, chunk, self._clip)
        if self._context.filter is None or self._context.filter.admits(sums, self._clip):
            self._sum.add(sums)
        self.added += self._size

    def _refuse_open_chunk(self) -> None:
        if self._open is not None:
            raise InputError(_LEFT_OUT)
