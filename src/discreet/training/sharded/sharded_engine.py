"""The engine of a run whose weights are shared out: chunks through twins of the model that gather weights in step.

It is the watched engine (`preflight.watching`) with one way less: where a chunk does not run a proved program, its
units are tried one by one, alone or beside copies of themselves, and a unit for which no program is proved adds
nothing. (Without shards it would go through `reference`, which needs all weights at once.) That depends on the unit
alone. Rows with long numbers are taken one by one too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import torch
from torch import Tensor, nn

from discreet.clipping import Clip, Criterion, Engine
from discreet.clipping.engines.bookkeeping import sums_to_form
from discreet.clipping.engines.chunk_shape import under_autocast
from discreet.clipping.engines.clipped_sums import ClippedSums, sums_of_none
from discreet.clipping.engines.engine import Gradients
from discreet.clipping.engines.long_rows import LongAlone
from discreet.clipping.seeding import seed_torch, unit_seeds
from discreet.clipping.separation import Proofs, Together, Twins
from discreet.clipping.separation.copies import AsBefore, Twin
from discreet.clipping.separation.examine import FEWEST
from discreet.clipping.separation.memory import Memory
from discreet.clipping.separation.recording.recorder import as_proved
from discreet.clipping.separation.watched import NOT_OF_A_ROW
from discreet.clipping.units import Chunk
from discreet.core.errors import PrivacyViolation, UnsupportedModel
from discreet.distributed.gathered_layers import GatheredLayers
from discreet.distributed.lockstep import Lockstep
from discreet.training.preflight.engine_check import Preflight
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.random_rows import Examples
from discreet.training.unit_failures import FailureProbe


class ShardedTwins(Twins):
    """Twins of a model without weights, which gather them where they run."""

    def __init__(self, lockstep: Lockstep) -> None:
        super().__init__(lambda *_: None, followed=True)
        self._lockstep = lockstep

    def of(self, model: nn.Module, criterion: Criterion) -> Twin:
        """A twin of model and loss as they are now, which no private row has changed."""
        if self._in_use:
            self.drop()
        if self._given is not criterion or not self._unchanged(model, criterion):
            self._source, self._given, self._twin = Memory(model, criterion), criterion, None
        if self._twin is None:
            self._twin = Twin(model, criterion, followed=True, own=False)
            self._before = AsBefore(self._twin.model, model)
            GatheredLayers(self._twin.model, self._lockstep)
        self._in_use = True
        return self._twin


class AfterPass(Mapping[str, Tensor]):
    """Sums of a pass that is over, some of which are formed as they are asked for. What fails then, but for memory,
    ends the run without its words, which may be of a row."""

    def __init__(self, sums: Mapping[str, Tensor]) -> None:
        self._sums = sums

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._sums[name]
        except NOT_OF_A_ROW:
            raise
        except Exception:
            raise PrivacyViolation(
                f"the clipped sum for {name!r} could not be formed from what was measured, so the step is not released"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._sums)

    def __len__(self) -> int:
        return len(self._sums)


@dataclass(frozen=True, slots=True)
class InStep:
    """An engine whose passes are taken in step; one that fails is brought to its end first, so that nobody waits."""

    sums: ClippedSums
    lockstep: Lockstep

    def __call__(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Mapping[str, Tensor]:
        try:
            found = self.sums(model, criterion, chunk, clip)
        except NOT_OF_A_ROW:
            raise
        except BaseException:
            self.lockstep.finish()
            raise
        self.lockstep.finish()
        return AfterPass(found)


@dataclass(frozen=True, slots=True)
class Singly:
    """The sum of a chunk whose units are taken one by one, each by a program that is proved."""

    together: Together

    def __call__(self, model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Gradients:
        total = sums_of_none(model, clip)
        with unit_seeds() as seed:
            for unit in chunk.one_by_one():
                seed()
                for name, part in self.together.alone(model, criterion, unit, clip).items():
                    total[name] += part
        return total


class ShardedProbe(FailureProbe):
    """The random unit of a run, computed in step by twins of its own. All processes try it at the same time."""

    def __init__(
        self, sums: InStep, preflight: Preflight, model: nn.Module, criterion: Criterion, unit: Examples | None
    ) -> None:
        super().__init__(preflight, model, criterion, unit)
        self._sums, self._twins, self._works = sums, ShardedTwins(sums.lockstep), True

    def _try(self, criterion: Criterion) -> Mapping[str, Tensor] | None:
        if self._unit is None:
            return None
        twin = self._twins.of(self._model, criterion)
        with torch.random.fork_rng(), as_proved(self._broadcast):
            seed_torch(0)  # so that several processes can compare what they found
            found = {**self._sums(twin.model, twin.criterion, self._unit.copied(), self.CLIP)}
        self._twins.look(self._model)
        return found


def sharded_engine(
    preflight: Preflight, options: EngineOptions, lockstep: Lockstep, unit: Examples | None
) -> tuple[Engine, InStep, Together]:
    """The engine of a run that is sharded, the same without its check at run time, and that check. `unit`: of random
    rows, if there can be one."""
    engine = preflight.engine
    plain = InStep(_in_parts(options, engine.name), lockstep)
    rows = None if unit is None else unit.rows
    together = Together(plain, _nothing, ShardedTwins(lockstep), Proofs(preflight.proved, _no_weights), rows)
    shaped = options.shaped(replace(engine, clipped_sum=together), preflight.chunk)
    return (
        replace(shaped, clipped_sum=LongAlone(shaped.clipped_sum, Singly(together), preflight.reach)),
        plain,
        together,
    )


def refuse_unproved(engine: Engine, check: Together, model: nn.Module, criterion: Criterion, unit: Examples) -> None:
    """`UnsupportedModel` if a chunk of copies of a random `unit` does not run a proved program: then no row would add
    anything. All processes try it at the same time."""
    with torch.random.fork_rng():
        seed_torch(0)
        engine.clipped_sum(model, criterion, unit.repeated(FEWEST), FailureProbe.CLIP)
    if check.again:
        raise UnsupportedModel(
            "no row would add anything: model or loss fails on a random row, or Python reads numbers from tensors "
            'of the model, which is proved with all weights at hand; mend that, or train with shard="replicate"'
        )


def _in_parts(options: EngineOptions, name: str) -> ClippedSums:
    """The sums of the engine called `name`; those of `bookkeeping` are formed one by one, as they are sent."""
    if name != "bookkeeping":
        return options.engine(name).clipped_sum
    return sums_to_form if options.autocast is None else under_autocast(sums_to_form, options.autocast)


def _nothing(model: nn.Module, criterion: Criterion, chunk: Chunk, clip: Clip) -> Gradients:
    return sums_of_none(model, clip)


def _no_weights(rows: int) -> NoReturn:
    raise NotImplementedError("a program that reads numbers from weights is proved again with all weights at hand")
