"""What an engine makes of random examples, beside what one backward pass per example makes of them."""

from __future__ import annotations

import itertools
import math
from functools import cached_property

import torch
from torch import Tensor, nn

from discreet.clipping import Clip, Criterion, mixing_module, private_parameters
from discreet.clipping.footprint import Footprint, footprint
from discreet.core.errors import UnsupportedModel
from discreet.training.engine_options import EngineOptions
from discreet.training.random_examples import UNITS, Examples

_CUTS = ((12,), (11, 1), (5, 7))
"""How the random units are cut into chunks: the sums must agree with one example at a time, and so with another."""

_TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.float16: 0.05, torch.bfloat16: 0.2}
"""Allowed distance from the reference, relative to rows x clip norm, by the type the model computes in."""


class Comparison:
    """A model with random examples, all of whose gradients are clipped, and what the reference makes of them.

    What rounding does is measured relative to the clip norm, so a gradient that is not clipped would hide some of it.
    """

    def __init__(self, options: EngineOptions, model: nn.Module, criterion: Criterion, examples: Examples) -> None:
        self.options, self.model, self.criterion, self.examples = options, model, criterion, examples
        self.clip = Clip(math.inf, 1.0)
        norms = sorted(length(self.sums("reference", one)) for one in self.singles())
        least = next((norm for norm in norms if norm > 1e-3 * norms[-1]), math.nan)
        norm = 0.3 * least if math.isfinite(norms[-1]) and math.isfinite(least) else 1.0
        self.clip = Clip(norm, norm * 2.0**-30)
        self.wanted, self.draws = self._twice()
        self.fixed = not self.draws
        if self.draws:
            model.eval()
            self.wanted, still = self._twice()
            self.fixed = not still
        types = {parameter.dtype for parameter in private_parameters(model).values()}
        types |= set() if options.autocast is None else {options.autocast}
        self.tolerance = max(_TOLERANCE.get(kind, 0.2) for kind in types)
        self.reduced = bool(types & {torch.float16, torch.bfloat16})

    @cached_property
    def mixing(self) -> str | None:
        """A module that mixes examples."""
        return mixing_module(self.model, self.examples.inputs[:3])

    @cached_property
    def footprint(self) -> Footprint:
        """What an example takes in a chunk."""
        return footprint(self.model, self.criterion, self.examples.inputs, self.examples.targets)

    def singles(self) -> list[Examples]:
        """Each unit alone."""
        return [self.examples.part(i, i + 1) for i in range(UNITS)]

    def sums(self, name: str, examples: Examples, seed: int = 0) -> dict[str, Tensor]:
        """The clipped sum of these examples."""
        torch.manual_seed(seed)
        given = self.model, self.criterion, examples.inputs, examples.targets, self.clip, examples.units
        if name == "reference":
            return self.options.engine(name).clipped_sum(*given)
        try:
            return self.options.engine(name).clipped_sum(*given)
        except (RuntimeError, TypeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UnsupportedModel(f"the engine {name!r} cannot run this model: {reason}") from error

    def apart(self, one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
        """The distance of two sums of all examples, relative to the clip norm, on average over the units."""
        return length({name: one[name].double() - other[name] for name in other}) / self.clip.norm / UNITS

    def chunked(self, name: str) -> list[dict[str, Tensor]]:
        """The sum of all examples, cut into chunks in several ways."""
        found = []
        for cut in _CUTS:
            ends = list(itertools.accumulate(cut))
            parts = [self.sums(name, self.examples.part(end - size, end)) for end, size in zip(ends, cut, strict=True)]
            found.append(added(parts))
        return found

    def _twice(self) -> tuple[dict[str, Tensor], bool]:
        """The sum by the reference, and whether it is another one when random numbers are others."""
        first, second = (self.sums("reference", self.examples, seed) for seed in (0, 1))
        return first, self.apart(first, second) != 0.0


def added(parts: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The sum of sums, in double precision."""
    return {name: torch.stack([part[name].double() for part in parts]).sum(0) for name in parts[0]}


def length(sums: dict[str, Tensor]) -> float:
    """The L2 norm of all tensors together."""
    return math.sqrt(sum(float(part.double().square().sum()) for part in sums.values()))
