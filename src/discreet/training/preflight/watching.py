"""The engine of a run, watched: rows that meet, or are remembered, are done again by models that saw no other row."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from discreet.clipping import BIT, Clip, Criterion, Engine, Units, modes_kept, private_parameters, training_mode
from discreet.clipping.engines.engine import ClippedSums
from discreet.clipping.losses import is_of_torch
from discreet.clipping.separation import Forgetful, Function, Mixes, Watched
from discreet.clipping.separation import proved as proved_of
from discreet.clipping.separation.program import Template
from discreet.core.errors import UnsupportedModel
from discreet.data import PrivateData
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.random_rows import Examples, random_rows
from discreet.training.public.public_copy import copied
from discreet.training.unit_failures import NOT_OF_A_ROW, one_by_one

_CLIP = Clip(1.0, 2.0**-30)

BATCHED = ("bookkeeping", "ghost")
"""Engines that run a batch as a batch."""


@dataclass(frozen=True, slots=True)
class Pristine:
    """A model and a loss that see random rows only, and the rows."""

    model: nn.Module
    criterion: Criterion
    examples: Examples

    def run(self, sums: ClippedSums, rows: int) -> None:
        """Take the clipped sum of so many random rows, in training mode."""
        times = -(-rows // len(self.examples.inputs))
        given = (self.examples.inputs, self.examples.targets)
        inputs, targets = (part.repeat(times, *[1] * (part.dim() - 1))[:rows].clone() for part in given)
        with modes_kept(self.model):
            training_mode(self.model)
            sums(self.model, self.criterion, inputs, targets, _CLIP)

    def warm(self, sums: ClippedSums, model: nn.Module, criterion: Criterion) -> None:
        """Run a model on one random row, if it takes it."""
        part = self.examples.part(0, 1)
        try:
            with torch.random.fork_rng():
                sums(model, criterion, part.inputs.clone(), part.targets, _CLIP, part.units)
        except NOT_OF_A_ROW:
            raise
        except Exception:  # a module may raise whatever it likes
            return

    def fresh(self, live: nn.Module, criterion: Criterion) -> tuple[nn.Module, Criterion]:
        """A copy that has seen no private row, with the parameters that the model has now."""
        self.follow(live)
        model, loss = copied(self.model, self.criterion)
        for name, module in live.named_modules():
            model.get_submodule(name).training = module.training
        return model, copy.deepcopy(criterion) if is_of_torch(criterion) else loss

    def follow(self, live: nn.Module) -> None:
        """Take over the parameters of the model that is trained, and where it is."""
        parameters = dict(live.named_parameters())
        for name, parameter in self.model.named_parameters():
            parameter.data = parameters[name].data
        device = next(iter(parameters.values())).device
        for buffer in self.model.buffers():
            buffer.data = buffer.data.to(device)


def proved(options: EngineOptions, pristine: Pristine) -> list[Template]:
    """What the model does with batches of rows. `UnsupportedModel` unless that is proved to keep rows apart."""
    sums = options.engine("bookkeeping").clipped_sum
    try:
        with torch.random.fork_rng():
            return [proved_of(lambda rows: pristine.run(sums, rows))]
    except Mixes as error:
        raise UnsupportedModel(
            f"{error}; engines that run a batch as a batch need a model in which each example is by itself, and has "
            "random numbers of its own"
        ) from None


def watched(engine: Engine, options: EngineOptions, pristine: Pristine, found: list[Template]) -> Engine:
    """The engine, with chunks done again one unit at a time where rows meet or are remembered.

    `found`: what `proved` found, for an engine that runs a batch as a batch.
    """
    sums = engine.clipped_sum

    def warm(model: nn.Module, criterion: Criterion) -> None:
        pristine.warm(sums, model, criterion)

    def run(rows: int) -> None:
        pristine.run(options.engine("bookkeeping").clipped_sum, rows)

    apart = units_apart(options.engine("exact" if engine.name == "exact" else "reference").clipped_sum, pristine)
    if engine.name in BATCHED:
        return replace(engine, clipped_sum=Watched(sums, apart, found, run, warm))
    return replace(engine, clipped_sum=Forgetful(sums, apart, warm, singly=engine.name != "vmap"))


def with_rows_apart(data: PrivateData, model: nn.Module) -> PrivateData:
    """The data with a transform that is called row by row, unless it is proved to keep the rows of a chunk apart."""
    if data.transform is None:
        return data
    rows = random_rows(model, data, None, raw=True).inputs
    return replace(data, transform=Function(data.transform, rows))


def units_apart(sums: ClippedSums, pristine: Pristine) -> ClippedSums:
    """The same, one unit at a time, each by a copy that has seen no private row. A unit on which the model fails adds
    nothing."""

    def wrapped(
        model: nn.Module, criterion: Criterion, inputs: Tensor, targets: Tensor, clip: Clip, units: Units | None = None
    ) -> dict[str, Tensor]:
        total = sums_of_none(model, clip)
        for x, y, unit in _counted((inputs, targets), units):
            try:
                twin, loss = pristine.fresh(model, criterion)
                found = sums(twin, loss, x, y, clip, unit)
            except NOT_OF_A_ROW:
                raise
            except Exception:  # a module may raise whatever it likes
                continue
            for name, part in found.items():
                total[name] += part
        return total

    return wrapped


def _counted(chunk: tuple[Tensor, Tensor], units: Units | None) -> Iterator[tuple[Tensor, Tensor, Units | None]]:
    parts = list(one_by_one(chunk, units))
    yield from parts[: len(parts) - (0 if units is None else units.padding)]


def sums_of_none(model: nn.Module, clip: Clip) -> dict[str, Tensor]:
    """The clipped sum of no unit: float64 zeros by parameter, and for the bit of the clip if it has one."""
    parameters = private_parameters(model).items()
    zeros = {name: torch.zeros(one.shape, dtype=torch.float64, device=one.device) for name, one in parameters}
    return zeros | ({BIT: torch.zeros(1, dtype=torch.float64)} if clip.bit else {})
