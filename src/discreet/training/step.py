"""One batch of a session, in physical chunks: what a loop adds up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor

from discreet.clipping import Accumulator, Clip, Criterion, Units
from discreet.core.arrays import IntArray
from discreet.core.errors import InputError
from discreet.training.failing import add_chunk
from discreet.training.views import views_of

if TYPE_CHECKING:
    from discreet.training.session import Session

Chunk = tuple[Tensor, Tensor]

Piece = tuple[IntArray, Units | None]
"""The rows of a chunk, and which belong together where a unit may have several."""

_LEFT_OUT = "a chunk of the step was not added; call step.add for every chunk of step.chunks"


class Step:
    """One batch, in physical chunks. Each chunk must be added exactly once before the step ends."""

    def __init__(self, session: Session, batch: list[Piece], clip: Clip) -> None:
        self._session = session
        self._batch = batch
        self._handed_out = 0
        self._open: Chunk | None = None
        self._units: Units | None = None
        self.clip = clip
        self.sum = Accumulator(session.parameters, clip.bit > 0)

    @property
    def chunks(self) -> Iterator[Chunk]:
        """(inputs, targets) of the batch, chunk by chunk; none if nobody was drawn."""
        if self._handed_out:
            raise InputError("step.chunks was already iterated; keep what you need from the first pass")
        for rows, units in self._batch:
            self._refuse_open_chunk()
            inputs, targets = (part.to(self._session.device) for part in self._session.data.fetch(rows))
            self._handed_out += 1
            inputs, targets, self._units = views_of(self._session.data, inputs, targets, units)
            self._open = inputs, targets
            yield self._open

    def add(self, criterion: Criterion, chunk: Chunk) -> None:
        """Clip every unit's gradient of `criterion(model(input), target)` and add it to the batch's sum.

        `criterion` sees one example at a time, so its reduction does not matter; of a user's examples the mean
        counts. The engine runs the backward pass; calling `backward` yourself inside a step is refused. A unit on which
        model or loss fails adds nothing (`training.failing`). A loss that is neither that of the Training nor one of
        torch.nn was not checked, and is refused.
        """
        if self._open is None:
            raise InputError("step.add needs the current chunk of step.chunks, once; this one was added already")
        inputs, targets = chunk
        if inputs is not self._open[0] or targets is not self._open[1]:
            raise InputError("step.add needs the current chunk of step.chunks; add its tensors as they came")
        session = self._session
        session.trial.of(criterion)
        add_chunk(self.sum, session.engine, session.model, criterion, self._open, self.clip, self._units)
        self._open = None

    def close(self) -> None:
        """Refuse a step in which a chunk was left out."""
        self._refuse_open_chunk()
        if self._handed_out < len(self._batch):
            raise InputError(_LEFT_OUT)

    def _refuse_open_chunk(self) -> None:
        if self._open is not None:
            raise InputError(_LEFT_OUT)
