"""The engine tried out on random data before a run: does it agree with one backward pass per example on this model?

The data is random and only has the shape of the private data, so what is found says nothing about anybody.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor, nn

from discreet.clipping import Criterion, Engine, private_parameters
from discreet.core import checks
from discreet.core.assumptions import LEAST_BITS, MOST_BITS
from discreet.core.errors import UnsupportedModel
from discreet.data import PrivateData
from discreet.training.choice import CLEARLY, LONG, NEGLIGIBLE, TIMED, Candidate, choose, described, seconds
from discreet.training.comparison import Comparison, added, length
from discreet.training.engine_options import AUTO, EngineOptions
from discreet.training.random_examples import UNITS, random_examples

_CANDIDATES = ("bookkeeping", "ghost", "vmap")
"""What `auto` may come to, in the order of preference."""
_BATCHED = ("bookkeeping", "ghost")

_MARGIN = 8
"""The float slack is so many times what was measured on random data."""

_CHUNK_MEMORY, _LARGEST_CHUNK, _GRADIENT_MEMORY = 2**30, 1024, 2**28
"""Bytes that a chunk may take: for what engines hold that run it as a batch, and for per-example gradients."""

_log = logging.getLogger("discreet")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The engine to train with, how many examples it takes at a time, and one line on how it was checked and chosen."""

    engine: Engine
    chunk: int
    line: str = field(compare=False)


def rehearse(
    engine: str | EngineOptions,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    classes: int | None,
    rows_per_unit: int = 1,
    physical_batch: int | None = None,
) -> Rehearsal:
    """Choose an engine, after a comparison with `reference` on random data.

    `classes`: the number of classes, if targets are class indices. `rows_per_unit`: with more than one, the random
    examples are units of one, two and more rows. `physical_batch`: rows per chunk, where they are given.
    `UnsupportedModel` if the engine that was asked for by name does not work on this model, and, for `auto`, if none
    does.
    """
    options = EngineOptions.of(engine)
    if physical_batch is not None:
        checks.count("physical_batch", physical_batch)
    found = _rehearsed(options, model, criterion, data, classes, rows_per_unit, physical_batch)
    chunk = physical_batch or found.chunk
    line = found.line if options.autocast is None else f"{found.line}; under autocast to {options.autocast}"
    return Rehearsal(options.shaped(found.engine, max(chunk, rows_per_unit)), chunk, line)


def _rehearsed(
    options: EngineOptions,
    model: nn.Module,
    criterion: Criterion,
    data: PrivateData,
    classes: int | None,
    rows_per_unit: int,
    chunk: int | None,
) -> Rehearsal:
    name = options.name
    if name in ("reference", "exact"):
        line = f"engine {name}: one backward pass per example"
        return Rehearsal(options.engine(name), _gradient_chunk(model), line)
    with _as_it_was(model):
        examples = random_examples(model, data, classes, rows_per_unit)
        try:
            stage = Comparison(options, model, criterion, examples)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            return _unchecked(options, model, error)
        return _chosen(stage, chunk) if name == AUTO else _checked(stage, name)


def _checked(stage: Comparison, name: str) -> Rehearsal:
    """The engine, if it agrees with the reference however the examples are cut into chunks."""
    if name in _BATCHED and stage.mixing is not None:
        raise UnsupportedModel(f"{stage.mixing} mixes the examples of a batch; use a norm within one example instead")
    if name == "ghost" and stage.draws:
        _check_replay(stage)
    chunk, sums = _room(stage, name), stage.chunked(name)
    if not stage.fixed:
        return Rehearsal(
            stage.options.engine(name),
            chunk,
            f"engine {name}: runs on random data; not compared with reference, as the model draws random numbers",
        )
    worst = max(stage.apart(one, stage.wanted) for one in sums)
    if not worst <= stage.tolerance:
        raise UnsupportedModel(
            f"the engine {name!r} is {worst:.1e} of the clip norm away from 'reference' on random data, more than "
            f"{stage.tolerance:g}; use engine='reference'"
        )
    slack = _slack(stage, name, sums) if stage.reduced else worst
    bits, what = _float_bits(slack), "examples" if stage.examples.units is None else "units"
    how = f", and {slack:.1e} from one at a time" if stage.reduced else ""
    return Rehearsal(
        replace(stage.options.engine(name), float_bits=bits),
        chunk,
        f"engine {name}: within {worst:.1e} of the clip norm from reference{how}, on {UNITS} random {what}; the noise "
        f"covers 2^-{bits} for each",
    )


def _check_replay(stage: Comparison) -> None:
    """Refuse a model whose random numbers the second pass of `ghost` does not draw again, by comparison with one pass
    that starts from the same ones."""
    before = stage.model.training
    stage.model.train()
    apart = stage.apart(*(stage.sums(name, stage.examples) for name in _BATCHED))
    stage.model.train(before)
    if not apart <= stage.tolerance:
        raise UnsupportedModel(
            "the model draws random numbers that do not come from torch's generator, so the two passes of the engine "
            "'ghost' would see different ones; use engine='bookkeeping'"
        )


def _slack(stage: Comparison, name: str, sums: list[dict[str, Tensor]]) -> float:
    """How far the sums are from terms of one unit each that are not longer than the clip norm.

    For models in reduced precision, in which the reference itself rounds too much to be compared with.
    """
    alone = [stage.sums(name, one) for one in stage.singles()]
    longer = max(0.0, *(length(one) / stage.clip.norm - 1 for one in alone))
    return max(stage.apart(one, added(alone)) for one in sums) + longer


def _chosen(stage: Comparison, chunk: int | None) -> Rehearsal:
    """The fastest of the engines that work.

    One that is clearly slower on a few rows than one before it, which has memory for the chunk, is not looked at.
    """
    found: dict[str, Rehearsal] = {}
    faults: dict[str, UnsupportedModel] = {}
    few: dict[str, Candidate] = {}
    for name in _CANDIDATES:
        rivals = [few[one].seconds for one in found if few[one].chunk >= (chunk or 1)]
        if rivals and min(rivals) * UNITS < NEGLIGIBLE:
            break
        if name == "vmap" and found and _gradient_chunk(stage.model) < UNITS:
            continue
        try:
            few |= _timed(stage, [name], chunk, UNITS)
            if not rivals or few[name].seconds < CLEARLY * min(rivals):
                found[name] = _checked(stage, name)
        except UnsupportedModel as error:
            faults[name] = error
    if not found:
        raise faults["vmap"]
    names = list(found)
    if len(names) > 1:
        rows = TIMED if max(few[name].seconds for name in names) * TIMED < LONG else UNITS
        few |= _timed(stage, names, chunk, rows)
        if choose([few[name] for name in names], chunk).name != names[0]:  # which may have been held up
            again = _timed(stage, names, chunk, rows)
            few |= {name: min(few[name], again[name], key=lambda one: one.seconds) for name in names}
    best = choose([few[name] for name in names], chunk)
    line = f"{found[best.name].line}; {described([*few.values()], chunk)}"
    fault = faults.get("bookkeeping")
    if fault is not None:
        _log.warning("engine 'bookkeeping' is not used: %s", fault)
        line += f"; not bookkeeping: {fault}"
    return replace(found[best.name], line=line)


def _timed(stage: Comparison, names: list[str], chunk: int | None, most: int) -> dict[str, Candidate]:
    """Each timed on a chunk of the size that it would have, of `most` rows at most."""
    room = {name: _room(stage, name) for name in names}
    parts = {name: stage.examples.about(min(room[name], chunk or room[name], most)) for name in names}
    calls = [partial(stage.sums, name, parts[name]) for name in names]
    times = zip(names, seconds(calls, stage.examples.inputs.device), strict=True)
    return {name: Candidate(name, taken / len(parts[name].inputs), room[name]) for name, taken in times}


def _float_bits(distance: float) -> int:
    """The float slack for what was measured, as bits below the clip norm."""
    bits = MOST_BITS if distance == 0 else math.floor(-math.log2(_MARGIN * distance))
    if not bits >= LEAST_BITS:
        raise UnsupportedModel(
            f"rounding moves the gradients of this model by {distance:.1e} of the clip norm, which would take too much "
            "noise to cover; use double precision, or engine='exact'"
        )
    return min(MOST_BITS, bits)


def _unchecked(options: EngineOptions, model: nn.Module, error: Exception) -> Rehearsal:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if options.name in _BATCHED:
        raise UnsupportedModel(
            f"the engine {options.name!r} cannot be checked, as the model does not take random data ({reason}); "
            "use engine='vmap'"
        ) from error
    line = f"engine vmap: not checked on random data ({reason})"
    return Rehearsal(options.engine("vmap"), _gradient_chunk(model), line)


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


def _room(stage: Comparison, name: str) -> int:
    """The rows that fit into the memory for a chunk."""
    if name not in _BATCHED:
        return _gradient_chunk(stage.model)
    size = getattr(stage.footprint, name)
    return int(min(_LARGEST_CHUNK, max(1, _CHUNK_MEMORY // max(1, size))))


def _gradient_chunk(model: nn.Module) -> int:
    numbers = sum(parameter.numel() for parameter in private_parameters(model).values())
    return int(min(256, max(1, _GRADIENT_MEMORY // (8 * numbers))))
