"""An engine's clipped sums of random examples, compared with one backward pass per example."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from discreet.clipping import BIT, Clip, Criterion, modes_kept, private_parameters, training_mode
from discreet.clipping.engines.engine import unit_gradients
from discreet.clipping.engines.footprint import Footprint, footprint
from discreet.clipping.factor import clipped_sum
from discreet.clipping.seeding import seed_torch
from discreet.clipping.separation.recording.program import BroadcastParameter, Template
from discreet.clipping.separation.recording.recorder import as_proved
from discreet.core.errors import CANNOT_TAKE, UnsupportedModel, first_line
from discreet.training.preflight.engine_options import EngineOptions
from discreet.training.preflight.model_check import refuse_mixing_backward, refuse_mixing_inside
from discreet.training.preflight.random_rows import UNITS, Examples
from discreet.training.preflight.tried_clips import Lengths, shortfall, tried
from discreet.training.preflight.watching import BATCHED, Pristine, proved

CUTS = ((12,), (11, 1), (5, 7))
"""Sizes of the chunks that the random units are cut into. Each cut must agree with one example at a time, hence with
the others."""

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.2}
"""Allowed distance from the reference, relative to rows x clip norm, by the type the model computes in."""

_GRADIENT_MEMORY, _KEPT_MEMORY = 2**28, 2**29
"""Bytes for per-example gradients in double precision: for those looked at together, and for all, if they are kept."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The largest distances of an engine's sums of all examples, over clips and cuts: per unit, relative to the clip
    norm.

    `reference`: from the reference's sum. `singles`: from the sum of single units' terms. The terms are the
    reference's, but in reduced precision, where the reference itself rounds too much: there they are the engine's own
    sums of one unit each, and `excess` is by how much the longest is longer than it may be.
    """

    reference: float
    singles: float
    excess: float


class Comparison:
    """A model with random examples and several clips, on which engines are compared with the reference.

    `clips`: clips of the plan's rule that do clip random gradients (see `tried_clips`). `draws`: the model draws random
    numbers. If so, it is put into evaluation mode; `fixed` says whether it then draws none. `vanishing`: no example has
    a gradient, so that nothing can be measured. `shortfall`: see `tried_clips.shortfall`.
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
        self.draws, self.fixed = self._take(examples, twice=True), True
        if self.draws:
            model.eval()
            self.fixed = not self._take(examples, twice=True)

    def on(self, examples: Examples) -> Comparison:
        """A comparison on other examples, with the model in its present state."""
        other = copy(self)
        for name in ("cut_to_grid", "mixing", "footprint"):
            vars(other).pop(name, None)
        other._take(examples)
        return other

    def _take(self, examples: Examples, twice: bool = False) -> bool:
        """Take these examples, and clips that suit the lengths of their gradients. Returns whether these change with
        the random numbers, for which they are computed `twice`."""
        self.examples = examples
        self._kept: list[dict[str, Tensor]] = []
        found: list[list[Lengths]] = [[] for _ in self._given]
        keep = 8 * UNITS * _numbers(self.model) <= _KEPT_MEMORY
        others, changed = self._computed(seed=1), False
        for block in self._computed():
            changed = changed or (twice and _differ(block, next(others)))
            for lengths, clip in zip(found, self._given, strict=True):
                lengths += Lengths.of_each(block, clip)
            if keep:
                self._kept.append(block)
        self.clips = tried(self._given, found)
        self.vanishing = not any(one.joint(one.squares) > 0 for one in found[0])
        self.shortfall = min(map(shortfall, self._given, found))
        return changed

    @cached_property
    def cut_to_grid(self) -> float:
        """The most that `exact` may differ from the reference because it rounds gradients to the grid."""
        return max(clip.grid / clip.norm for clip in self.clips) * math.sqrt(_numbers(self.model))

    @cached_property
    def mixing(self) -> UnsupportedModel | None:
        """The error for a model whose modules mix examples; None if they do not."""
        try:
            refuse_mixing_inside(self.model, self.examples.inputs)
        except UnsupportedModel as error:
            return error
        except CANNOT_TAKE as error:
            return UnsupportedModel(f"the modules cannot be tried on batches of random rows: {first_line(error)}")
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
            except CANNOT_TAKE as error:
                self._proved = UnsupportedModel(f"batches of random rows cannot be followed: {first_line(error)}")
        if isinstance(self._proved, UnsupportedModel):
            raise self._proved
        return self._proved

    @cached_property
    def broadcast(self) -> tuple[BroadcastParameter, ...] | None:
        """The parameters that are proved to be broadcast over the examples; None without a proof."""
        try:
            known = self.proved()
            return known[0].one.broadcast if known else None
        except UnsupportedModel:
            return None

    def check_backward(self) -> None:
        """Refuse a model or loss whose backward pass a batched engine cannot run."""
        try:
            refuse_mixing_backward(self.model, self.criterion, self.examples.inputs, self.examples.targets)
        except UnsupportedModel:
            raise
        except CANNOT_TAKE as error:
            raise UnsupportedModel(f"the backward pass cannot be tried on random data: {first_line(error)}") from error

    @cached_property
    def footprint(self) -> Footprint:
        """The memory that an example takes in a chunk."""
        with as_proved(self.broadcast):
            return footprint(self.model, self.criterion, self.examples.inputs, self.examples.targets)

    def sums(self, name: str, examples: Examples, clip: Clip, seed: int = 0) -> dict[str, Tensor]:
        """The clipped sum of these examples."""
        proved = self.broadcast if name in BATCHED else None
        seed_torch(seed)
        try:
            with as_proved(proved):
                return {**self.options.engine(name).clipped_sum(self.model, self.criterion, examples, clip)}
        except UnsupportedModel:
            raise
        except CANNOT_TAKE as error:
            reason = first_line(error)
            raise UnsupportedModel(f"the engine {name!r} cannot run this model: {reason}") from error

    def distance(self, name: str, cuts: Sequence[tuple[int, ...]] = CUTS) -> Distance:
        """The distance of the engine's sums from others, with the examples cut into chunks in several ways."""
        found = [self._distance(name, clip, cuts) for clip in self.clips]
        return Distance(*(max(getattr(one, kind) for one in found) for kind in ("reference", "singles", "excess")))

    def _distance(self, name: str, clip: Clip, cuts: Sequence[tuple[int, ...]]) -> Distance:
        """`distance` for one clip. A sum takes gigabytes if the model is large, so each is compared at once."""
        wanted = added(clipped_sum(block, clip) for block in self._gradients())
        alone = self.reduced and self.options.engine(name).float_bits is not None
        terms, excess = self._singles(name, clip) if alone else (wanted, 0.0)
        reference = singles = 0.0
        for cut in cuts:
            found = self._cut(name, clip, cut)
            reference = max(reference, apart(found, wanted, clip))
            singles = max(singles, apart(found, terms, clip))
        return Distance(reference, singles, excess)

    def _singles(self, name: str, clip: Clip) -> tuple[dict[str, Tensor], float]:
        """The sum of the engine's sums of one unit each; and by how much the longest of them is longer than it may be,
        relative to the sensitivity."""
        total: dict[str, Tensor] = {}
        longest = 0.0
        for i in range(UNITS):
            one = self.sums(name, self.examples.part(i, i + 1), clip)
            longest = max(longest, _length(one))
            _add(total, one)
        return total, max(0.0, longest / clip.sensitivity - 1)

    def _cut(self, name: str, clip: Clip, cut: tuple[int, ...]) -> dict[str, Tensor]:
        parts = zip(itertools.accumulate(cut), cut, strict=True)
        return added(self.sums(name, self.examples.part(end - size, end), clip) for end, size in parts)

    def _gradients(self) -> Iterator[dict[str, Tensor]]:
        """The reference's gradients, kept or computed anew."""
        return iter(self._kept) if self._kept else self._computed()

    def _computed(self, seed: int = 0) -> Iterator[dict[str, Tensor]]:
        """The gradients of units by the reference, units along axis 0, as many at a time as there is memory for. Each
        such block has random numbers of its own."""
        size = min(UNITS, gradient_rows(self.model))
        for start in range(0, UNITS, size):
            yield self._block(self.examples.part(start, min(start + size, UNITS)), 2 * start + seed)

    def _block(self, examples: Examples, seed: int) -> dict[str, Tensor]:
        seed_torch(seed)
        with self.options.precision(examples.inputs.device):
            return unit_gradients(self.model, self.criterion, examples)


def _numbers(model: nn.Module) -> int:
    """The number of entries of a gradient."""
    return sum(parameter.numel() for parameter in private_parameters(model).values())


def gradient_rows(model: nn.Module) -> int:
    """The number of gradients in double precision that fit into the memory for per-example gradients: one at least."""
    return int(min(256, max(1, _GRADIENT_MEMORY // (8 * _numbers(model)))))


def _differ(ones: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    """Whether a number is another, where those that are none are the same."""
    return not all(torch.allclose(one, others[name], 0.0, 0.0, equal_nan=True) for name, one in ones.items())


def apart(one: dict[str, Tensor], other: dict[str, Tensor], clip: Clip) -> float:
    """Distance of two sums of all examples per unit, relative to the clip norm (with the bit of adaptive clipping, to
    slightly more); infinite if a number is none."""
    squares = {name: float((one[name].double() - part).square_().sum()) for name, part in other.items()}
    whole = math.sqrt(sum(squares.values())) / clip.spread
    gradients = math.sqrt(sum(square for name, square in squares.items() if name != BIT)) / clip.norm
    distance = max(whole, gradients) / UNITS
    return distance if distance < math.inf else math.inf


def added(parts: Iterable[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sum of sums, in double precision."""
    total: dict[str, Tensor] = {}
    for part in parts:
        _add(total, part)
    return total


def _add(total: dict[str, Tensor], part: dict[str, Tensor]) -> None:
    """Add a part to a total, which begins empty."""
    for name, tensor in part.items():
        if name in total:
            total[name].add_(tensor)
        else:
            total[name] = tensor.to(torch.float64, copy=True)


def _length(sums: dict[str, Tensor]) -> float:
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
        found = dict(model.named_buffers())
        changed = [name for name, one in found.items() if name not in before or not torch.equal(one, before[name])]
        with torch.no_grad():
            for name in changed:
                if name in before:
                    model.get_buffer(name).copy_(before[name])
    if changed:
        raise UnsupportedModel(
            f"buffer {changed[0]!r} changes when the model is called in training mode, so private data would enter "
            "it; remove what writes to it"
        )
