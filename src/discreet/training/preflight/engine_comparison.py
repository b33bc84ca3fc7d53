"""An engine's clipped sums of random examples, compared with one backward pass per example."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cached_property

import torch
from torch import Tensor, nn

from discreet.clipping import BIT, Clip, Criterion, modes_kept, private_parameters, training_mode
from discreet.clipping.engines.engine import reference_sum, unit_gradients
from discreet.clipping.engines.footprint import Footprint, footprint
from discreet.clipping.factor import clipped
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.program import Template
from discreet.core.errors import UnsupportedModel
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.model_check import refuse_mixing_backward, refuse_mixing_inside
from discreet.training.preflight.random_rows import UNITS, Examples
from discreet.training.preflight.tried_clips import Lengths, tried
from discreet.training.preflight.watching import Pristine, proved

CUTS = ((12,), (11, 1), (5, 7))
"""Sizes of the chunks that the random units are cut into. Each cut must agree with one example at a time, hence with
the others."""

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.2}
"""Allowed distance from the reference, relative to rows x clip norm, by the type the model computes in."""

_NO_CLIP = Clip(math.inf, 1.0)

_CANNOT = (RuntimeError, ValueError, IndexError, TypeError)
"""Exceptions of models and losses that cannot be tried on random rows."""


class Comparison:
    """A model with random examples, several clips, and the reference's sums.

    `clips`: clips of the plan's rule that do clip random gradients (see `tried_clips`). `wanted`: the reference's sum
    for each. `draws`: the model draws random numbers. If so, it is put into evaluation mode; `fixed` says whether it
    then draws none.
    """

    def __init__(
        self,
        options: EngineOptions,
        model: nn.Module,
        criterion: Criterion,
        examples: Examples,
        clips: Sequence[Clip],
    ) -> None:
        self.options, self.model, self.criterion = options, model, criterion
        self._given = clips
        self._proved: tuple[Template, ...] | UnsupportedModel | None = None
        types = {parameter.dtype for parameter in private_parameters(model).values()}
        types |= set() if options.autocast is None else {options.autocast}
        self.tolerance = max(_TOLERANCE.get(kind, 0.2) for kind in types)
        self.reduced = bool(types & {torch.float16, torch.bfloat16})
        self._look(examples)
        self.draws = self._draw()
        if self.draws:
            model.eval()
            self._look(examples)
        self.fixed = not (self.draws and self._draw())

    def on(self, examples: Examples) -> Comparison:
        """A comparison on other examples, with the model in its present state."""
        other = copy(self)
        for name in ("cut_to_grid", "mixing", "footprint"):
            vars(other).pop(name, None)
        other._look(examples)
        return other

    def _look(self, examples: Examples) -> None:
        """Compute the reference's gradients once and clip them, which is faster than running it for each clip."""
        self.examples = examples
        gradients = self._each()
        self._gradients = clipped(gradients, _NO_CLIP)  # zero where not finite
        self.clips = tried(self._given, [Lengths.of_each(self._gradients, clip) for clip in self._given])
        self.wanted = [reference_sum(gradients, clip) for clip in self.clips]

    @cached_property
    def cut_to_grid(self) -> float:
        """The most that `exact` may differ from the reference because it rounds gradients to the grid."""
        numbers = sum(parameter.numel() for parameter in private_parameters(self.model).values())
        return max(clip.grid / clip.norm for clip in self.clips) * math.sqrt(numbers)

    @cached_property
    def mixing(self) -> UnsupportedModel | None:
        """The error for a model whose modules mix examples; None if they do not."""
        try:
            refuse_mixing_inside(self.model, self.examples.inputs)
        except UnsupportedModel as error:
            return error
        except _CANNOT as error:
            return UnsupportedModel(f"the modules cannot be tried on batches of random rows: {_line(error)}")
        return None

    def proved(self) -> tuple[Template, ...]:
        """The model's programs on batches, one for each path; `UnsupportedModel` unless they are proved to keep rows
        apart."""
        if self._proved is None:
            try:
                pristine = Pristine(self.model, self.criterion, self.examples)
                self._proved = tuple(proved(self.options, pristine))
            except UnsupportedModel as error:
                self._proved = error
            except _CANNOT as error:
                self._proved = UnsupportedModel(f"batches of random rows cannot be followed: {_line(error)}")
        if isinstance(self._proved, UnsupportedModel):
            raise self._proved
        return self._proved

    def check_backward(self) -> None:
        """Refuse a model or loss whose backward pass a batched engine cannot run."""
        try:
            refuse_mixing_backward(self.model, self.criterion, self.examples.inputs, self.examples.targets)
        except UnsupportedModel:
            raise
        except _CANNOT as error:
            raise UnsupportedModel(f"the backward pass cannot be tried on random data: {_line(error)}") from error

    @cached_property
    def footprint(self) -> Footprint:
        """The memory that an example takes in a chunk."""
        return footprint(self.model, self.criterion, self.examples.inputs, self.examples.targets)

    def singles(self) -> list[Examples]:
        """Each unit alone."""
        return [self.examples.part(i, i + 1) for i in range(UNITS)]

    def sums(self, name: str, examples: Examples, clip: Clip, seed: int = 0) -> dict[str, Tensor]:
        """The clipped sum of these examples."""
        seed_torch(seed)
        given = self.model, self.criterion, examples.inputs, examples.targets, clip, examples.units
        try:
            return {**self.options.engine(name).clipped_sum(*given)}
        except (RuntimeError, TypeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UnsupportedModel(f"the engine {name!r} cannot run this model: {reason}") from error

    def chunked(self, name: str, cuts: Sequence[tuple[int, ...]] = CUTS) -> list[list[dict[str, Tensor]]]:
        """The sum of all examples, cut into chunks in several ways, for each clip."""
        return [[self._cut(name, clip, cut) for cut in cuts] for clip in self.clips]

    def farthest(self, sums: list[list[dict[str, Tensor]]], wanted: list[dict[str, Tensor]]) -> float:
        """The largest distance between the sums of `chunked` and `wanted`, over all clips."""
        triples = zip(sums, wanted, self.clips, strict=True)
        return max(apart(one, other, clip) for ones, other, clip in triples for one in ones)

    def _cut(self, name: str, clip: Clip, cut: tuple[int, ...]) -> dict[str, Tensor]:
        ends = list(itertools.accumulate(cut))
        parts = zip(ends, cut, strict=True)
        return added([self.sums(name, self.examples.part(end - size, end), clip) for end, size in parts])

    def _each(self, seed: int = 0) -> dict[str, Tensor]:
        """The gradient of each unit by the reference, units along axis 0."""
        seed_torch(seed)
        one = self.examples
        with self.options.precision(one.inputs.device):
            return unit_gradients(self.model, self.criterion, one.inputs, one.targets, one.units)

    def _draw(self) -> bool:
        """Whether the reference's gradients change with the random numbers."""
        again = clipped(self._each(seed=1), _NO_CLIP)
        return any(not torch.equal(rows, again[name]) for name, rows in self._gradients.items())


def apart(one: dict[str, Tensor], other: dict[str, Tensor], clip: Clip) -> float:
    """Distance of two sums of all examples per unit, relative to the clip norm (with the bit of adaptive clipping, to
    slightly more)."""
    distances = {name: one[name].double() - other[name] for name in other}
    whole = length(distances) / clip.spread
    gradients = length({name: part for name, part in distances.items() if name != BIT}) / clip.norm
    return max(whole, gradients) / UNITS


def added(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sum of sums, in double precision."""
    return {name: torch.stack([part[name].double() for part in parts]).sum(0) for name in parts[0]}


def length(sums: dict[str, Tensor]) -> float:
    """The L2 norm of all tensors together."""
    return math.sqrt(sum(float(part.double().square().sum()) for part in sums.values()))


@contextmanager
def as_it_was(model: nn.Module) -> Iterator[None]:
    """Training mode inside the context; afterwards buffers, modes and torch's generator are restored."""
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


def _line(error: Exception) -> str:
    """The first line of an error."""
    return (str(error).splitlines() or [type(error).__name__])[0]
