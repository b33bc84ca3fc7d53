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

from discreet.clipping import (
    ENGINES,
    Clip,
    Criterion,
    Engine,
    frozen_norms,
    modes_kept,
    private_parameters,
    training_mode,
)
from discreet.clipping.bookkeeping import bytes_per_example
from discreet.core.assumptions import LEAST_BITS, MOST_BITS
from discreet.core.errors import InputError, UnsupportedModel
from discreet.data import PrivateData
from discreet.training.admission import refuse_mixing_inside
from discreet.training.random_rows import UNITS, Examples, random_rows

AUTO = "auto"
"""The engine's name for: `bookkeeping` where it works, else `vmap`."""

_CUTS = ((12,), (11, 1), (5, 7))
"""How the random units are cut into chunks: the sums must agree with one example at a time, and so with another."""

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


def rehearse(
    name: str,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    classes: int | None,
    rows_per_unit: int = 1,
    clips: tuple[Clip, ...] = (Clip(1.0, 2.0**-30),),
) -> Rehearsal:
    """Choose the engine called `name`, after a comparison with `reference` on random data.

    `classes`: the number of classes, if targets are class indices. `rows_per_unit`: with more than one, the random
    examples are units of one, two and more rows. `UnsupportedModel` if the engine that was asked
    for by name does not work on this model, and, for `auto`, if none does. `clips`: the plan's way to clip, in one
    state or several; the largest distance counts.
    """
    if name != AUTO and name not in ENGINES:
        raise InputError(f"unknown engine {name!r}; known: {', '.join([AUTO, *ENGINES])}")
    frozen = frozen_norms(model)
    found = _chosen(name, model, criterion, data, classes, rows_per_unit, clips)
    if not frozen:
        return found
    kept = f"{frozen[0]!r}" + (f" and {len(frozen) - 1} more" if len(frozen) > 1 else "")
    return replace(found, line=f"{found.line}; norm {kept} stays in evaluation mode, with the statistics that it has")


def _chosen(
    name: str,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    classes: int | None,
    rows_per_unit: int,
    clips: tuple[Clip, ...],
) -> Rehearsal:
    if name == "reference":
        return Rehearsal(ENGINES[name], _gradient_chunk(model), "engine reference: one backward pass per example")
    with _as_it_was(model):
        rows = random_rows(model, data, classes, rows_per_unit * data.views)
        examples = [replace(rows, clip=clip) for clip in clips]
        try:
            _try("reference", model, criterion, examples[0])
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


def _checked(name: str, model: nn.Module, criterion: Criterion, clipped: list[Examples]) -> Rehearsal:
    """The engine, if it agrees with the reference, for two sizes of batch, however the same examples are clipped."""
    examples = clipped[0]
    if name == "bookkeeping":
        refuse_mixing_inside(model, examples.inputs)
    fixed = _is_repeatable(model, criterion, examples)
    worst = max(_worst(name, model, criterion, each) for each in clipped)
    if not fixed:
        return Rehearsal(
            ENGINES[name],
            _chunk(name, model, criterion, examples),
            f"engine {name}: runs on random data; not compared with reference, as the model draws random numbers",
        )
    tolerance = max(_TOLERANCE.get(parameter.dtype, 0.2) for parameter in private_parameters(model).values())
    numbers = sum(parameter.numel() for parameter in private_parameters(model).values())
    tolerance += max(each.clip.grid / each.clip.spread for each in clipped) * math.sqrt(numbers)  # as `exact` cuts
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


def _worst(name: str, model: nn.Module, criterion: Criterion, examples: Examples) -> float:
    """The largest distance from the reference, for a unit and relative to what rounding may move."""
    wanted = _try("reference", model, criterion, examples)
    apart = max(_distance(_in_chunks(name, model, criterion, examples, cut), wanted) for cut in _CUTS)
    return apart / (UNITS * examples.clip.spread)


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
    name: str, model: nn.Module, criterion: Criterion, examples: Examples, cut: tuple[int, ...]
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


def _try(name: str, model: nn.Module, criterion: Criterion, examples: Examples, seed: int = 0) -> dict[str, Tensor]:
    """The sum of the clipped gradients."""
    torch.manual_seed(seed)
    return ENGINES[name].clipped_sum(model, criterion, examples.inputs, examples.targets, examples.clip, examples.units)


def _distance(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float((one[name] - other[name]).square().sum()) for name in other))


def _is_repeatable(model: nn.Module, criterion: Criterion, examples: Examples) -> bool:
    """Whether two runs agree; if dropout is why they do not, it is switched off."""
    for _ in range(2):
        first = _try("reference", model, criterion, examples)
        second = _try("reference", model, criterion, examples, seed=1)
        if _distance(first, second) == 0.0:
            return True
        model.eval()
    return False


@contextmanager
def _as_it_was(model: nn.Module) -> Iterator[None]:
    """Training mode inside; outside, buffers, modes and torch's generator as they were."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        with modes_kept(model), torch.random.fork_rng():
            training_mode(model)
            yield
    finally:
        changed = [name for name, buffer in model.named_buffers() if not _same(buffer, before.get(name))]
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


def _chunk(name: str, model: nn.Module, criterion: Criterion, examples: Examples) -> int:
    if name != "bookkeeping":
        return _gradient_chunk(model)
    size = bytes_per_example(model, criterion, examples.inputs, examples.targets)
    return int(min(_LARGEST_CHUNK, max(1, _CHUNK_MEMORY // max(1, size))))


def _gradient_chunk(model: nn.Module) -> int:
    numbers = sum(parameter.numel() for parameter in private_parameters(model).values())
    return int(min(256, max(1, _GRADIENT_MEMORY // (8 * numbers))))
