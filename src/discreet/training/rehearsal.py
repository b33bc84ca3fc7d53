"""The engine tried out on random data before a run: does it agree with one backward pass per example on this model?

The data is random and only has the shape of the private data, so what is found says nothing about anybody.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from discreet.clipping import ENGINES, Clip, Criterion, Engine, Units, mixing_module, private_parameters
from discreet.clipping.bookkeeping import bytes_per_example
from discreet.core.assumptions import LEAST_BITS, MOST_BITS
from discreet.core.errors import InputError, UnsupportedModel
from discreet.data import PrivateData

AUTO = "auto"
"""The engine's name for: `bookkeeping` where it works, else `vmap`."""

UNITS = 12
_CUTS = ((12,), (11, 1), (5, 7))
"""How the random units are cut into chunks: the sums must agree with one example at a time, and so with another."""
_MOST_ROWS = 4
"""Random units of several rows have up to so many, if the plan uses that many."""

_GRID = 2.0**-30
"""Where the sums of `exact` lie; it cuts every coordinate to it."""

_MARGIN = 8
"""The float slack is so many times what was measured on random data."""

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.2}
"""Allowed distance from the reference, relative to rows x clip norm, by the model's type."""
_CHUNK_MEMORY, _LARGEST_CHUNK, _GRADIENT_MEMORY = 2**30, 1024, 2**28
"""Bytes that a chunk may take: for what `bookkeeping` captures, and for per-example gradients."""

_log = logging.getLogger("discreet")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The engine to train with, how many examples it takes at a time, and one line on how it was checked."""

    engine: Engine
    chunk: int
    line: str

    def report(self) -> None:
        """Say the line, as a message of the logger "discreet"."""
        _log.info("%s", self.line)


@dataclass(frozen=True, slots=True)
class _Examples:
    """Random rows, and which of them belong together."""

    inputs: Tensor
    targets: Tensor
    units: Units | None

    def part(self, start: int, stop: int) -> _Examples:
        """Units start .. stop - 1."""
        if self.units is None:
            return _Examples(self.inputs[start:stop], self.targets[start:stop], None)
        first, last = ((0, *self.units.ends)[i] for i in (start, stop))
        return _Examples(self.inputs[first:last], self.targets[first:last], Units(self.units.sizes[start:stop]))


def rehearse(
    name: str,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    classes: int | None,
    rows_per_unit: int = 1,
) -> Rehearsal:
    """Choose the engine called `name`, after a comparison with `reference` on random data.

    `classes`: the number of classes, if targets are class indices. `rows_per_unit`: with more than one, the random
    examples are units of one, two and more rows. `UnsupportedModel` if the engine that was asked
    for by name does not work on this model, and, for `auto`, if none does.
    """
    if name != AUTO and name not in ENGINES:
        raise InputError(f"unknown engine {name!r}; known: {', '.join([AUTO, *ENGINES])}")
    if name == "reference":
        return Rehearsal(ENGINES[name], _gradient_chunk(model), "engine reference: one backward pass per example")
    with _as_it_was(model):
        examples = _random(model, data, classes, rows_per_unit)
        try:
            _try("reference", model, criterion, examples)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            return _unchecked(name, model, error)
        if name != AUTO:
            return _checked(name, model, criterion, examples)
        try:
            return _checked("bookkeeping", model, criterion, examples)
        except UnsupportedModel as error:
            _log.warning("engine 'bookkeeping' is not used: %s", error)
            found = _checked("vmap", model, criterion, examples)
            return Rehearsal(found.engine, found.chunk, f"{found.line}; not bookkeeping: {error}")


def _checked(name: str, model: nn.Module, criterion: Criterion, examples: _Examples) -> Rehearsal:
    """The engine, if it agrees with the reference, for two sizes of batch."""
    if name == "bookkeeping":
        mixing = mixing_module(model, examples.inputs[:3])
        if mixing is not None:
            raise UnsupportedModel(f"{mixing} mixes the examples of a batch; use a norm within one example instead")
    fixed = _is_repeatable(model, criterion, examples)
    wanted = _try("reference", model, criterion, examples)
    worst = max(_distance(_in_chunks(name, model, criterion, examples, cut), wanted) / UNITS for cut in _CUTS)
    if not fixed:
        return Rehearsal(
            ENGINES[name],
            _chunk(name, model, criterion, examples),
            f"engine {name}: runs on random data; not compared with reference, as the model draws random numbers",
        )
    tolerance = max(_TOLERANCE.get(parameter.dtype, 0.2) for parameter in private_parameters(model).values())
    tolerance += _GRID * math.sqrt(sum(parameter.numel() for parameter in private_parameters(model).values()))
    if not worst <= tolerance:
        raise UnsupportedModel(
            f"the engine {name!r} is {worst:.1e} of the clip norm away from 'reference' on random data, more than "
            f"{tolerance:g}; use engine='reference'"
        )
    what = f"within {worst:.1e} of the clip norm from reference, on {UNITS} random "
    what += "examples" if examples.units is None else "units"
    if ENGINES[name].float_bits is None:
        return Rehearsal(ENGINES[name], _gradient_chunk(model), f"engine {name}: {what}")
    bits = _float_bits(worst)
    return Rehearsal(
        replace(ENGINES[name], float_bits=bits),
        _chunk(name, model, criterion, examples),
        f"engine {name}: {what}; the noise covers 2^-{bits} for each",
    )


def _float_bits(distance: float) -> int:
    """The float slack for what was measured, as bits below the clip norm."""
    bits = MOST_BITS if distance == 0 else math.floor(-math.log2(_MARGIN * distance))
    if not bits >= LEAST_BITS:
        raise UnsupportedModel(
            f"rounding moves the gradients of this model by {distance:.1e} of the clip norm, which would take too much "
            "noise to cover; use double precision, or engine='exact'"
        )
    return min(MOST_BITS, bits)


def _in_chunks(
    name: str, model: nn.Module, criterion: Criterion, examples: _Examples, cut: tuple[int, ...]
) -> dict[str, Tensor]:
    """The sum over chunks of these sizes."""
    ends = list(itertools.accumulate(cut))
    chunks = [_try(name, model, criterion, examples.part(end - size, end)) for end, size in zip(ends, cut, strict=True)]
    return {parameter: torch.stack([chunk[parameter] for chunk in chunks]).sum(0) for parameter in chunks[0]}


def _unchecked(name: str, model: nn.Module, error: Exception) -> Rehearsal:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if name == "bookkeeping":
        raise UnsupportedModel(
            f"the engine 'bookkeeping' cannot be checked, as the model does not take random data ({reason}); "
            "use engine='vmap'"
        ) from error
    name = "exact" if name == "exact" else "vmap"
    return Rehearsal(ENGINES[name], _gradient_chunk(model), f"engine {name}: not checked on random data ({reason})")


def _try(name: str, model: nn.Module, criterion: Criterion, examples: _Examples, seed: int = 0) -> dict[str, Tensor]:
    """The sum of gradients that are all clipped to 1, however small they are."""
    torch.manual_seed(seed)
    return ENGINES[name].clipped_sum(
        model, criterion, examples.inputs, examples.targets, Clip(1.0, _GRID), examples.units
    )


def _distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float((one[name] - other[name]).square().sum()) for name in other))


def _is_repeatable(model: nn.Module, criterion: Criterion, examples: _Examples) -> bool:
    """Whether two runs agree; if dropout is why they do not, it is switched off."""
    for _ in range(2):
        first = _try("reference", model, criterion, examples)
        second = _try("reference", model, criterion, examples, seed=1)
        if _distance(first, second) == 0.0:
            return True
        model.eval()
    return False


def _random(model: nn.Module, data: PrivateData, classes: int | None, rows_per_unit: int) -> _Examples:
    """Examples of the shape of the data's first row, from a fixed generator."""
    device = next(iter(private_parameters(model).values())).device
    tables = [module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)]
    generator = torch.Generator().manual_seed(0)
    several = min(rows_per_unit, _MOST_ROWS)
    units = Units(tuple(1 + i % several for i in range(UNITS))) if several > 1 else None

    def like(example: Tensor, below: int) -> Tensor:
        shape = (UNITS if units is None else units.rows, *example.shape[1:])
        if example.is_floating_point():
            return torch.rand(shape, generator=generator).to(example.dtype)
        return torch.randint(0, max(1, below), shape, generator=generator).to(example.dtype)

    inputs, targets = data.fetch(torch.zeros(1, dtype=torch.int64).numpy())
    return _Examples(like(inputs, min(tables, default=2)).to(device), like(targets, classes or 2).to(device), units)


@contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Training mode inside; outside, buffers, modes and torch's generator as they were."""
    modes = {module: module.training for module in model.modules()}
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        with torch.random.fork_rng():
            model.train()
            yield
    finally:
        changed = [name for name, buffer in model.named_buffers() if not _same(buffer, before.get(name))]
        for module, mode in modes.items():
            module.training = mode
        with torch.no_grad():
            for name in changed:
                if name in before:
                    model.get_buffer(name).copy_(before[name])
    if changed:
        raise UnsupportedModel(
            f"buffer {changed[0]!r} changes when the model is called in training mode, so private data would enter "
            "it; remove what writes to it"
        )


def _same(one: Tensor, other: Tensor | None) -> bool:
    return other is not None and one.shape == other.shape and bool(torch.equal(one, other))


def _chunk(name: str, model: nn.Module, criterion: Criterion, examples: _Examples) -> int:
    if name != "bookkeeping":
        return _gradient_chunk(model)
    size = bytes_per_example(model, criterion, examples.inputs, examples.targets)
    return int(min(_LARGEST_CHUNK, max(1, _CHUNK_MEMORY // max(1, size))))


def _gradient_chunk(model: nn.Module) -> int:
    numbers = sum(parameter.numel() for parameter in private_parameters(model).values())
    return int(min(256, max(1, _GRADIENT_MEMORY // (8 * numbers))))
