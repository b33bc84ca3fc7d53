"""Random rows of the shape of private ones, to try models and engines on before a run.

They only have the shape of the private data, so what is found with them says nothing about anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from discreet.clipping import Units, private_parameters
from discreet.data import PrivateData
from discreet.training.augmented_views import transformed

UNITS = 12

_KINDS = 6
"""Of natural rows. Half as many as there are units, so that each occurs twice."""

_FAINT, _ROUGH, _DENSITY = 1e-3, 1e-3, 0.05
"""The size of faint rows, the roughness of nearly constant ones, and the share of sparse ones that is not zero."""

_MOST_ROWS = 4
"""Random units of several rows have up to so many, if the plan uses that many."""

_Make = Callable[[int, Tensor, float, torch.Generator], Tensor]
"""Makes a natural row: which kind, one of the same shape, the size, and where random numbers come from."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Random rows, and which of them belong together."""

    inputs: Tensor
    targets: Tensor
    units: Units | None

    def part(self, start: int, stop: int) -> Examples:
        """Units start .. stop - 1."""
        if self.units is None:
            return Examples(self.inputs[start:stop], self.targets[start:stop], None)
        first, last = ((0, *self.units.ends)[i] for i in (start, stop))
        return Examples(self.inputs[first:last], self.targets[first:last], Units(self.units.sizes[start:stop]))

    def about(self, rows: int) -> Examples:
        """The same over and over, or a part of them: at most so many rows, if that is one unit at least."""
        if len(self.inputs) > rows:
            ends = range(1, UNITS + 1) if self.units is None else self.units.ends
            return self.part(0, max(1, sum(end <= rows for end in ends)))
        times = rows // len(self.inputs)
        inputs, targets = (part.repeat(times, *[1] * (part.dim() - 1)) for part in (self.inputs, self.targets))
        return Examples(inputs, targets, None if self.units is None else Units(self.units.sizes * times))


def random_rows(
    model: nn.Module, data: PrivateData, classes: int | None, rows_per_unit: int = 1, *, raw: bool = False
) -> Examples:
    """Examples of the shape of the data's first row, from a fixed generator; `classes`: as many labels are drawn.

    They are as the model gets them; with `raw`, as the data's transform does.
    """
    device = next(iter(private_parameters(model).values())).device
    tables = [module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)]
    generator = torch.Generator().manual_seed(0)
    several = min(rows_per_unit, _MOST_ROWS)
    units = Units(tuple(1 + i % several for i in range(UNITS))) if several > 1 else None

    def like(example: Tensor, below: int) -> Tensor:
        shape = (UNITS if units is None else units.rows, *example.shape[1:])
        if example.is_floating_point():
            return torch.rand(shape, generator=generator).to(example.dtype)
        if example.is_complex():
            return torch.view_as_complex(torch.rand(*shape, 2, generator=generator)).to(example.dtype)
        return torch.randint(0, max(1, below), shape, generator=generator).to(example.dtype)

    inputs, targets = data.fetch(torch.zeros(1, dtype=torch.int64).numpy())
    if not raw:
        with torch.random.fork_rng():
            inputs = transformed(data, inputs)
    return Examples(like(inputs, min(tables, default=2)).to(device), like(targets, classes or 2).to(device), units)


def natural_rows(examples: Examples, size: float) -> Examples:
    """Rows of the same shape as natural ones come: all zero, constant, nearly constant, sparse, of both signs, faint.

    The numbers of each have a size of its own, between a 16th of `size` and `size`. Complex ones have two such parts,
    and whole ones are rounded, as far as their type goes. Targets stay as they are.
    """
    like = examples.inputs[:1]
    if like.is_complex():
        parts = torch.view_as_real(examples.inputs)
        return replace(examples, inputs=torch.view_as_complex(_made(parts, _natural_numbers, size)))
    return replace(examples, inputs=_made(examples.inputs, _natural_numbers, size))


def natural_tokens(examples: Examples) -> Examples:
    """The same of rows of tokens: all zero, all the same, or the end as it would be if it were padded."""
    return replace(examples, inputs=_made(examples.inputs, _natural_tokens, 1.0))


def _made(inputs: Tensor, make: _Make, size: float) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    rows = [make(i % _KINDS, one.cpu(), size, generator) for i, one in enumerate(inputs)]
    return _as_whole(torch.stack(rows), inputs.dtype).to(inputs)


def _as_whole(rows: Tensor, kind: torch.dtype) -> Tensor:
    """Rounded to what that type has, if it is one of whole numbers."""
    if kind.is_floating_point or kind == torch.bool:
        return rows
    limits = torch.iinfo(kind)
    rows = rows.round() if limits.min else rows.abs().round()
    return rows.clamp(limits.min, limits.max)


def _natural_numbers(kind: int, like: Tensor, size: float, generator: torch.Generator) -> Tensor:
    scale, level = torch.rand(2, generator=generator).double().tolist()
    scale = size * 16.0**-scale
    drawn: Tensor = torch.rand(like.shape, generator=generator, dtype=torch.float64)
    mask: Tensor = torch.rand(like.shape, generator=generator) < _DENSITY
    match kind:
        case 0:
            return torch.zeros_like(drawn)
        case 1:
            return torch.full_like(drawn, scale * (2 * level - 1))
        case 2:
            return drawn.mul(-_ROUGH).add(1).mul(scale)
        case 3:
            return drawn.mul(mask).mul(scale)
        case 4:
            return drawn.mul(2).sub(1).mul(scale)
    return drawn.mul(_FAINT)


def _natural_tokens(kind: int, like: Tensor, size: float, generator: torch.Generator) -> Tensor:
    if kind % 3 == 2 and like.dim():
        return torch.cat([like[: len(like) // 2], torch.zeros_like(like[len(like) // 2 :])])
    return torch.zeros_like(like) if kind % 3 == 0 else like.flatten()[:1].expand(like.numel()).view(like.shape)
