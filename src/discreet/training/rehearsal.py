"""The engine tried out on random data before a run: does it agree with one backward pass per example on this model?

The data is random and only has the shape of the private data, so what is found says nothing about anybody.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from discreet.clipping import Clip, Criterion, Engine, mixing_module, private_parameters
from discreet.clipping.footprint import footprint
from discreet.core import checks
from discreet.core.assumptions import LEAST_BITS, MOST_BITS
from discreet.core.errors import UnsupportedModel
from discreet.data import PrivateData
from discreet.training.choice import TIMED, Candidate, choose, described, seconds
from discreet.training.engine_options import AUTO, EngineOptions
from discreet.training.random_examples import UNITS, Examples, random_examples

_CANDIDATES = ("bookkeeping", "ghost", "vmap")
"""What `auto` may come to, in the order of preference."""
_BATCHED = ("bookkeeping", "ghost")

_CUTS = ((12,), (11, 1), (5, 7))
"""How the random units are cut into chunks: the sums must agree with one example at a time, and so with another."""

_MARGIN = 8
"""The float slack is so many times what was measured on random data."""

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.2}
"""Allowed distance from the reference, relative to rows x clip norm, by the type the model computes in."""
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
    return Rehearsal(options.shaped(found.engine, max(chunk, rows_per_unit)), chunk, found.line)


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
            stage = _Stage(options, model, criterion, examples)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            return _unchecked(options, model, error)
        return _chosen(stage, chunk) if name == AUTO else _checked(stage, name)


class _Stage:
    """A model with random examples, all of whose gradients are clipped, and what the reference makes of them.

    What rounding does is measured relative to the clip norm, so a gradient that is not clipped would hide some of it.
    """

    def __init__(self, options: EngineOptions, model: nn.Module, criterion: Criterion, examples: Examples) -> None:
        self.options, self.model, self.criterion, self.examples = options, model, criterion, examples
        self.clip = Clip(math.inf, 1.0)
        norms = sorted(_length(self.sums("reference", one)) for one in self.singles())
        least = next((norm for norm in norms if norm > 1e-3 * norms[-1]), math.nan)
        norm = 0.3 * least if math.isfinite(norms[-1]) and math.isfinite(least) else 1.0
        self.clip = Clip(norm, norm * 2.0**-30)
        self.draws = not self._repeats()
        model.train(not self.draws)
        self.fixed = not self.draws or self._repeats()
        self.wanted = self.sums("reference", examples)
        types = {parameter.dtype for parameter in private_parameters(model).values()}
        types |= set() if options.autocast is None else {options.autocast}
        self.tolerance = max(_TOLERANCE.get(kind, 0.2) for kind in types)
        self.reduced = bool(types & {torch.float16, torch.bfloat16})

    @cached_property
    def mixing(self) -> str | None:
        """A module that mixes examples."""
        return mixing_module(self.model, self.examples.inputs[:3])

    def singles(self) -> list[Examples]:
        """Each unit alone."""
        return [self.examples.part(i, i + 1) for i in range(UNITS)]

    def sums(self, name: str, examples: Examples, seed: int = 0) -> dict[str, Tensor]:
        """The clipped sum of these examples."""
        torch.manual_seed(seed)
        return self.options.engine(name).clipped_sum(
            self.model, self.criterion, examples.inputs, examples.targets, self.clip, examples.units
        )

    def apart(self, one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
        """The distance of two sums of all examples, relative to the clip norm, on average over the units."""
        return _length({name: one[name].double() - other[name] for name in other}) / self.clip.norm / UNITS

    def chunked(self, name: str) -> list[dict[str, Tensor]]:
        """The sum of all examples, cut into chunks in several ways."""
        found = []
        for cut in _CUTS:
            ends = list(itertools.accumulate(cut))
            parts = [self.sums(name, self.examples.part(end - size, end)) for end, size in zip(ends, cut, strict=True)]
            found.append(_added(parts))
        return found

    def _repeats(self) -> bool:
        """Whether two runs agree."""
        return self.apart(*(self.sums("reference", self.examples, seed) for seed in (0, 1))) == 0.0


def _checked(stage: _Stage, name: str) -> Rehearsal:
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


def _check_replay(stage: _Stage) -> None:
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


def _slack(stage: _Stage, name: str, sums: list[dict[str, Tensor]]) -> float:
    """How far the sums are from terms of one unit each that are not longer than the clip norm.

    For models in reduced precision, in which the reference itself rounds too much to be compared with.
    """
    alone = [stage.sums(name, one) for one in stage.singles()]
    longer = max(0.0, *(_length(one) / stage.clip.norm - 1 for one in alone))
    return max(stage.apart(one, _added(alone)) for one in sums) + longer


def _chosen(stage: _Stage, chunk: int | None) -> Rehearsal:
    """The fastest of the engines that work."""
    found: dict[str, Rehearsal] = {}
    faults: dict[str, UnsupportedModel] = {}
    for name in _CANDIDATES:
        if name == "vmap" and found and _gradient_chunk(stage.model) < UNITS:
            continue
        try:
            found[name] = _checked(stage, name)
        except UnsupportedModel as error:
            faults[name] = error
    if not found:
        raise faults["vmap"]
    candidates = [Candidate(name, _seconds(stage, name, one, chunk), one.chunk) for name, one in found.items()]
    best = choose(candidates, chunk)
    line = f"{found[best.name].line}; {described(best, candidates, chunk)}"
    fault = faults.get("bookkeeping")
    if fault is not None:
        _log.warning("engine 'bookkeeping' is not used: %s", fault)
        line += f"; not bookkeeping: {fault}"
    return replace(found[best.name], line=line)


def _seconds(stage: _Stage, name: str, found: Rehearsal, chunk: int | None) -> float:
    """Per row, on a chunk of the size that it would have, or of so many rows as are enough to tell."""
    examples = stage.examples.about(min(found.chunk, chunk or found.chunk, TIMED))
    device = examples.inputs.device
    return seconds(lambda: stage.sums(name, examples), device) / len(examples.inputs)


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


def _added(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([part[name].double() for part in parts]).sum(0) for name in parts[0]}


def _length(sums: dict[str, Tensor]) -> float:
    return math.sqrt(sum(float(part.double().square().sum()) for part in sums.values()))


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


def _room(stage: _Stage, name: str) -> int:
    """The rows that fit into the memory for a chunk."""
    if name not in _BATCHED:
        return _gradient_chunk(stage.model)
    size = getattr(footprint(stage.model, stage.criterion, stage.examples.inputs, stage.examples.targets), name)
    return int(min(_LARGEST_CHUNK, max(1, _CHUNK_MEMORY // max(1, size))))


def _gradient_chunk(model: nn.Module) -> int:
    numbers = sum(parameter.numel() for parameter in private_parameters(model).values())
    return int(min(256, max(1, _GRADIENT_MEMORY // (8 * numbers))))
