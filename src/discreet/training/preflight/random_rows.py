"""Random rows of the shape of private ones, to try models and engines on before a run.

They share only the shape of the private data, so results on them say nothing about anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from discreet.clipping import Chunk, Units, private_parameters
from discreet.clipping.admission.example_axes import is_whole
from discreet.core.errors import CANNOT_TAKE, InputError, first_line
from discreet.data import PrivateData
from discreet.training.augmented_views import transformed

UNITS = 12

_KINDS = 6
"""Kinds of natural rows: half as many as there are units, so that each kind occurs twice."""

_FAINT, _ROUGH, _DENSITY = 1e-3, 1e-3, 0.05
"""The size of faint rows, the roughness of nearly constant ones, and the share of sparse ones that is not zero."""

_MOST_ROWS = 4
"""The most rows of a random unit, if the plan uses that many."""

_FEW = 8
"""A table is small if the largest one has at least this many times its words."""

_Make = Callable[[int, Tensor, float, torch.Generator], Tensor]
"""Makes a natural row from its kind, a row of the same shape, the size of its numbers and a generator."""


@dataclass(frozen=True, slots=True)
class Examples(Chunk):
    """A chunk of random rows. `of_model`: the model has made the inputs (`rows_of_model`)."""

    of_model: bool = False

    def about(self, rows: int) -> Examples:
        """These examples repeated or cut to at most `rows` rows, one unit at least."""
        if len(self.inputs) > rows:
            ends = range(1, UNITS + 1) if self.units is None else self.units.ends
            return self.part(0, max(1, sum(end <= rows for end in ends)))
        return self.repeated(rows // len(self.inputs))

    def rows(self, count: int) -> Chunk:
        """So many of these rows, repeated if need be, in memory of their own and without units."""
        many = self.repeated(-(-count // len(self.inputs)))
        return Chunk(many.inputs[:count], many.targets[:count]).copied()


def random_rows(
    model: nn.Module, data: PrivateData, classes: int | None, rows_per_unit: int = 1, *, raw: bool = False
) -> Examples:
    """Examples of the shape of the data's first row, from a fixed generator, with labels below `classes`.

    Their shape is that of the model's input; with `raw`, that of the transform's input. Inputs are made by the model
    where it has a method for it (`rows_of_model`).
    """
    device = next(iter(private_parameters(model).values())).device
    generator = torch.Generator().manual_seed(0)
    several = min(rows_per_unit, _MOST_ROWS)
    sizes = tuple(1 + i % several for i in range(UNITS))
    units = Units(sizes, at_most=rows_per_unit) if several > 1 else None

    def like(example: Tensor, below: int) -> Tensor:
        shape = (UNITS if units is None else units.rows, *example.shape[1:])
        if example.is_floating_point():
            return torch.rand(shape, generator=generator).to(example.dtype)
        if example.is_complex():
            return torch.view_as_complex(torch.rand(*shape, 2, generator=generator)).to(example.dtype)
        return torch.randint(0, max(1, below), shape, generator=generator).to(example.dtype)

    inputs, targets = data.first()
    if not raw:
        with torch.random.fork_rng():
            inputs = transformed(data, inputs)
    count, of_model = UNITS if units is None else units.rows, not raw or data.transform is None
    made = rows_of_model(model, inputs, count, generator) if of_model else None
    if made is None:
        made = like(inputs, min(_tables(model), default=2))
        of_model = False
    return Examples(made.to(device), like(targets, classes or 2).to(device), units, of_model)


def few_words(model: nn.Module, examples: Examples) -> str | None:
    """A remark if random rows have far fewer words than the model knows, because of a small table; else None."""
    tables = _tables(model)
    if examples.of_model or not is_whole(examples.inputs) or not tables or min(tables) * _FEW > max(tables):
        return None
    return (
        f"the checks try the model on whole numbers below {min(tables)} only, its smallest table of embeddings (the "
        f"largest has {max(tables)}); give it a method rows_to_try(example, count, generator) that makes random rows"
    )


def _tables(model: nn.Module) -> list[int]:
    """The number of words in each table of embeddings."""
    kinds = nn.Embedding | nn.EmbeddingBag
    return [module.num_embeddings for module in model.modules() if isinstance(module, kinds)]


def rows_of_model(model: nn.Module, example: Tensor, count: int, generator: torch.Generator) -> Tensor | None:
    """Random rows that the model makes itself, by `rows_to_try(example, count, generator)`; None without that method.

    `example`: a row with axis 0, of which nothing is used but shape and type. A model that looks up words and, say,
    their types knows which numbers of a row are which; without the method all are drawn below its smallest table.
    `InputError` if the method fails, or makes rows of another shape, or others when it is called again: all processes
    of a run must make the same.
    """
    make: Any = getattr(model, "rows_to_try", None)
    if not callable(make):
        return None
    twin = torch.Generator()
    twin.set_state(generator.get_state())
    found, again = (_called(make, example, count, one) for one in (generator, twin))
    if found is None:
        return None
    wanted = (count, *example.shape[1:])
    if not isinstance(found, Tensor) or found.shape != wanted:
        given = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(f"rows_to_try of the model must return rows of shape {wanted}, got {given}")
    if not isinstance(again, Tensor) or not torch.equal(found, again):
        raise InputError("rows_to_try of the model makes other rows when it is called again; draw from `generator`")
    return found.detach().to(example.dtype)


def _called(make: Any, example: Tensor, count: int, generator: torch.Generator) -> Any:
    try:
        with torch.random.fork_rng():
            return make(torch.zeros_like(example), count, generator)
    except CANNOT_TAKE as error:
        raise InputError(
            f"rows_to_try(example, count, generator) of the model fails: {type(error).__name__}: {first_line(error)}"
        ) from error


def natural_rows(examples: Examples, size: float) -> Examples:
    """Rows of the same shape that resemble natural data: all zero, constant, nearly constant, sparse, of both signs,
    faint.

    The numbers of each row have their own size, between a 16th of `size` and `size`. Complex numbers have two such
    parts; whole numbers are rounded and limited to their type. Targets stay as they are.
    """
    like = examples.inputs[:1]
    if like.is_complex():
        parts = torch.view_as_real(examples.inputs)
        return replace(examples, inputs=torch.view_as_complex(_made(parts, _natural_numbers, size)))
    return replace(examples, inputs=_made(examples.inputs, _natural_numbers, size))


def natural_tokens(examples: Examples) -> Examples:
    """Rows of tokens that resemble natural text: all zero, all equal, or padded at the end.

    Of rows that a model has made none becomes all equal: what is a word at one place may be beyond a table at another.
    """
    return replace(
        examples, inputs=_made(examples.inputs, _tokens_as_made if examples.of_model else _natural_tokens, 1.0)
    )


def _made(inputs: Tensor, make: _Make, size: float) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    rows = [make(i % _KINDS, one.cpu(), size, generator) for i, one in enumerate(inputs)]
    return _as_whole(torch.stack(rows), inputs.dtype).to(inputs)


def _as_whole(rows: Tensor, kind: torch.dtype) -> Tensor:
    """Rounded to whole numbers within the type, if it is a type of whole numbers."""
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


def _tokens_as_made(kind: int, like: Tensor, size: float, generator: torch.Generator) -> Tensor:
    if kind % 3 == 2 and like.dim():
        half = like.shape[-1] // 2
        return torch.cat([like[..., :half], torch.zeros_like(like[..., half:])], -1)
    return torch.zeros_like(like) if kind % 3 == 0 else like
