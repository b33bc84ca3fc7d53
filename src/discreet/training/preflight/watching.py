"""The watched engine of a run: a chunk whose rows may have mixed, or were remembered, is redone row by row on fresh
copies."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from discreet.clipping import Clip, Criterion, Engine, modes_kept, training_mode
from discreet.clipping.engines.clipped_sums import ClippedSums
from discreet.clipping.engines.engine import ENGINES
from discreet.clipping.engines.long_rows import LongAlone
from discreet.clipping.rules.vectorised import run_as
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation import Apart, Function, Mixes, Proofs, Together, Twins
from discreet.clipping.separation import proved as proved_of
from discreet.clipping.separation.copies import AsBefore, copied
from discreet.clipping.separation.memory import holds_part_of
from discreet.clipping.separation.recording.program import Template
from discreet.clipping.separation.watched import NOT_OF_A_ROW
from discreet.core.errors import InputError, UnsupportedModel
from discreet.data import PrivateData
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.random_rows import Examples, random_rows

_log = logging.getLogger("discreet")

_CLIP = Clip(1.0, 2.0**-30)

BATCHED = frozenset(name for name, engine in ENGINES.items() if engine.runs == "batch")
"""Engines that run a batch as a batch."""


@dataclass(frozen=True, slots=True)
class Pristine:
    """A model and a loss that see random rows only, with these rows."""

    model: nn.Module
    criterion: Criterion
    examples: Examples

    def run(self, sums: ClippedSums, rows: int) -> None:
        """The clipped sum of `rows` random rows, in training mode."""
        with modes_kept(self.model):
            training_mode(self.model)
            with _run_as_before(self.model):
                sums(self.model, self.criterion, self.examples.rows(rows), _CLIP)

    def run_copy(self, sums: ClippedSums, rows: int) -> None:
        """The clipped sum by copies of model and loss, so that earlier calls make no difference."""
        model, criterion = copied(self.model, self.criterion)
        replace(self, model=model, criterion=criterion).run(sums, rows)

    def warm(self, sums: ClippedSums, model: nn.Module, criterion: Criterion) -> None:
        """Run a model on one random row, if it takes it."""
        try:
            with torch.random.fork_rng():
                sums(model, criterion, self.examples.part(0, 1).copied(), _CLIP)
        except NOT_OF_A_ROW:
            raise
        except BaseException:  # a module may raise whatever it likes
            return


def _run_as_before(model: nn.Module) -> AbstractContextManager[None]:
    """A context in which modules run again as they are now; as they will be then, if they cannot be copied, which is
    no fault where none runs again."""
    try:
        return run_as(AsBefore.now(model))
    except UnsupportedModel:
        return nullcontext()


def settled(pristine: Pristine, sums: ClippedSums) -> Pristine:
    """A copy after its first call, when it has created its lazy state; the original where that cannot be copied."""
    try:
        model, criterion = copied(pristine.model, pristine.criterion)
        pristine.warm(sums, model, criterion)
        copied(model, criterion)
    except InputError:
        return pristine
    return replace(pristine, model=model, criterion=criterion)


def proved(options: EngineOptions, pristine: Pristine) -> list[Template]:
    """The model's programs on batches of rows. `UnsupportedModel` unless they are proved to keep rows apart."""
    sums = options.engine("bookkeeping").clipped_sum
    if holds_part_of(pristine.model, pristine.criterion):
        raise UnsupportedModel(
            "the loss holds the model or a part of it, so it may take from a batch what is not the model's output; "
            "engines that run a batch as a batch need a loss of outputs and targets alone"
        )
    try:
        with torch.random.fork_rng():
            seed_torch(0)  # so that all processes prove, or refuse, the same
            return [proved_of(lambda rows: pristine.run(sums, rows))]
    except Mixes as error:
        raise UnsupportedModel(
            f"{error}; engines that run a batch as a batch need a model in which each example is by itself, and has "
            "random numbers of its own"
        ) from None


def watched(
    engine: Engine, options: EngineOptions, pristine: Pristine, rows: int, found: Sequence[Template], reach: float
) -> Engine:
    """The engine on twins of the model. A chunk is redone one unit at a time where rows mix or are remembered.

    `rows`: the fixed number of rows of a chunk, if requested. `found`: the result of `proved`. `reach`: as in
    `LongAlone`.
    """
    sums, batched = engine.clipped_sum, engine.runs == "batch"
    shaped = options.shaped(engine, rows).clipped_sum
    twins = Twins(partial(pristine.warm, shaped), followed=batched)
    if engine.runs == "rows":
        return options.shaped(replace(engine, clipped_sum=Apart(sums, twins)), rows)
    alone = options.engine("reference").clipped_sum
    apart = Apart(alone, Twins(partial(pristine.warm, alone)))
    run = partial(settled(pristine, sums).run_copy, options.engine("bookkeeping").clipped_sum)
    looked_at = Together(sums, apart, twins, Proofs(found, run) if batched else None, pristine.examples.rows)
    together = options.shaped(replace(engine, clipped_sum=looked_at), rows)
    return replace(together, clipped_sum=LongAlone(together.clipped_sum, apart, reach))


def with_rows_apart(data: PrivateData, model: nn.Module) -> PrivateData:
    """The data, with its transform called row by row unless it is proved to keep the rows of a chunk apart. A warning
    says why it is not."""
    if data.transform is None:
        return data
    function = Function(data.transform, random_rows(model, data, None, raw=True).inputs)
    if function.unproved:
        _log.warning(
            "the transform gets one row at a time, which is slow, and in which rows cannot be mixed: %s",
            function.unproved,
        )
    return replace(data, transform=function)
